package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

func TestParseOrigin(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:3000":       "http://127.0.0.1:3000",
		"https://example.com/":        "https://example.com",
		"h2c://127.0.0.1:50051":       "h2c://127.0.0.1:50051",
		"http://[::1]:3000":           "http://[::1]:3000",
		"":                            "",
		"127.0.0.1:3000":              "",
		"localhost:3000":              "",
		"ftp://example.com":           "",
		"http://":                     "",
		"http://user:secret@h":        "",
		"http://example.com/blog":     "",
		"http://example.com?x=1":      "",
		"http://example.com/#x":       "",
		"http://exa mple.com":         "",
		"http://127.0.0.1:not-a-port": "",
	} {
		u, err := gateway.ParseOrigin(in)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is accepted as %s", in, u)
		case want == "" && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error has the password: %v", err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q is %v, %v; want %s", in, u, err, want)
		}
	}
}

// proxy returns a renderer in front of an origin that echoes its requests.
func proxy(t *testing.T, origin http.HandlerFunc) (h http.Handler, address *url.URL) {
	t.Helper()
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	address, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Renderer(gateway.Config{Origin: address, Logger: slog.New(slog.DiscardHandler)}), address
}

func ask(h http.Handler, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOriginSeesTheVisitorsRequest(t *testing.T) {
	var seen *http.Request
	h, _ := proxy(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Clone(r.Context()) })
	ask(h, "http://site.example/a%2Fb?x=1;y=2&%zz", http.Header{
		"X-Kept":                   {"yes"},
		"X-Forwarded-For":          {"1.2.3.4"},
		"X-Forwarded-Proto":        {"https"},
		"X-Middleware-Subrequest":  {"middleware"},
		"X-Original-Url":           {"/admin"},
		"X-Prerender-Bypass-Mode":  {"1"},
		"X-Original-Host":          {"evil.example"},
		"X-Forwarded-Server":       {"evil.example"},
		"X-Forwarded-Ssl":          {"on"},
		"Front-End-Https":          {"on"},
		"X-Forwarded-Port":         {"8443"},
		"X-Forwarded-Prefix":       {"//evil.example"},
		"X-Script-Name":            {"//evil.example"},
		"X-Forwarded-Host":         {"evil.example"},
		"Connection":               {"X-Hop"},
		"X-Hop":                    {"1"},
		"X-Nextjs-Not-Internal-At": {"1"},
	})
	if seen.Host != "site.example" || seen.RequestURI != "/a%2Fb?x=1;y=2&%zz" {
		t.Errorf("the origin saw %s %s", seen.Host, seen.RequestURI)
	}
	if seen.Header.Get("X-Kept") == "" || seen.Header.Get("X-Forwarded-Host") != "site.example" || seen.Header.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("the origin saw %v", seen.Header)
	}
	for _, name := range []string{"X-Middleware-Subrequest", "X-Original-Url", "X-Prerender-Bypass-Mode", "X-Hop", "X-Original-Host", "X-Forwarded-Server", "X-Forwarded-Ssl", "Front-End-Https", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Script-Name"} {
		if v := seen.Header.Get(name); v != "" {
			t.Errorf("the visitor's %s: %s reached the origin", name, v)
		}
	}
	if got := seen.Header.Get("X-Forwarded-For"); strings.Contains(got, "1.2.3.4") {
		t.Errorf("the visitor's X-Forwarded-For reached the origin: %q", got)
	}
}

// A render is a projection of a key, and has no RemoteAddr.
func TestRendersHaveNoClientAddress(t *testing.T) {
	var seen http.Header
	h, _ := proxy(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	r := httptest.NewRequest(http.MethodGet, "http://site.example/", http.NoBody)
	r.RemoteAddr = ""
	h.ServeHTTP(httptest.NewRecorder(), r)
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Forwarded-Port"} {
		if v := seen.Values(name); len(v) > 0 {
			t.Errorf("the origin gets %s: %q", name, v)
		}
	}
	if seen.Get("X-Forwarded-Proto") != "http" || seen.Get("X-Forwarded-Host") != "site.example" {
		t.Errorf("the origin saw %v", seen)
	}
}

func TestPublicScheme(t *testing.T) {
	var seen string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("X-Forwarded-Proto") }))
	t.Cleanup(server.Close)
	address, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := gateway.Renderer(gateway.Config{Origin: address, PublicScheme: "https"})
	for _, remote := range []string{"", "192.0.2.1:99"} {
		r := httptest.NewRequest(http.MethodGet, "http://site.example/", http.NoBody)
		r.RemoteAddr = remote
		h.ServeHTTP(httptest.NewRecorder(), r)
		if seen != "https" {
			t.Errorf("a request from %q has the scheme %q", remote, seen)
		}
	}
}

func TestRedirectsUseThePublicHost(t *testing.T) {
	location := ""
	h, address := proxy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	})
	for in, want := range map[string]string{
		address.String() + "/a?b=1#c":                                    "/a?b=1#c",
		address.String():                                                 "/",
		address.String() + "//evil.example/":                             "/.//evil.example/",
		address.String() + "///evil.example/?q":                          "/.///evil.example/?q",
		address.String() + "/\\evil.example":                             "/%5Cevil.example",
		address.String() + "?q=1":                                        "/?q=1",
		"//" + address.Host + "//evil.example/a":                         "/.//evil.example/a",
		"https://" + address.Hostname() + ".:" + address.Port() + "/dot": "/dot",
		"/relative":                  "/relative",
		"https://elsewhere.example/": "https://elsewhere.example/",
		"http://site.example/kept":   "http://site.example/kept",
	} {
		location = in
		if got := ask(h, "http://site.example/", nil).Header().Get("Location"); got != want {
			t.Errorf("Location %s became %s, want %s", in, got, want)
		}
	}
}

func TestUnreachableOrigin(t *testing.T) {
	var log bytes.Buffer
	server := httptest.NewServer(nil)
	down, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	h := gateway.Renderer(gateway.Config{Origin: down, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := ask(h, "http://site.example/secret", nil)
	if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), down.Host) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the visitor got %d %q %v", w.Code, w.Body, w.Header())
	}
	if !strings.Contains(log.String(), down.Host) {
		t.Errorf("the log does not name the origin: %s", log.String())
	}
}

func TestBodiesAreForwardedUnchanged(t *testing.T) {
	h, _ := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Encoding", "gzip") // it is not gzip, and no code decodes it
		fmt.Fprintf(w, "%s %s", r.Header.Get("Accept-Encoding"), body)
	})
	r := httptest.NewRequest(http.MethodPost, "http://h/", strings.NewReader("posted"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Body.String() != " posted" || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%q %v", w.Body, w.Header())
	}
}

func TestNextPreset(t *testing.T) {
	mine := isr.Route{Vary: []string{"X-Device"}, Query: []string{"page"}}
	rt := gateway.Next(mine)
	if err := rt.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(mine.Vary) != 1 || len(mine.Query) != 1 {
		t.Errorf("the route given was changed: %+v", mine)
	}
	if !strings.Contains(strings.Join(rt.Vary, " "), "X-Device RSC") || rt.Query[0] != "page" || rt.Query[1] != "_rsc" {
		t.Errorf("%+v", rt)
	}
}
