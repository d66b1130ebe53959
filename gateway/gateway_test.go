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
			t.Errorf("the error tells the password: %v", err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q is %v, %v; want %s", in, u, err, want)
		}
	}
}

// proxy is a renderer in front of an origin that answers with what it saw.
func proxy(t *testing.T, trusted []string, origin http.HandlerFunc) (h http.Handler, address *url.URL) {
	t.Helper()
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	address, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Renderer(address, trusted, slog.New(slog.DiscardHandler)), address
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
	h, _ := proxy(t, nil, func(_ http.ResponseWriter, r *http.Request) { seen = r.Clone(r.Context()) })
	ask(h, "http://site.example/a%2Fb?x=1;y=2&%zz", http.Header{
		"X-Kept":                   {"yes"},
		"X-Forwarded-For":          {"1.2.3.4"},
		"X-Forwarded-Proto":        {"https"},
		"X-Middleware-Subrequest":  {"middleware"},
		"X-Original-Url":           {"/admin"},
		"X-Prerender-Bypass-Mode":  {"1"},
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
	for _, name := range []string{"X-Middleware-Subrequest", "X-Original-Url", "X-Prerender-Bypass-Mode", "X-Hop"} {
		if v := seen.Header.Get(name); v != "" {
			t.Errorf("the visitor's %s: %s reached the origin", name, v)
		}
	}
	if got := seen.Header.Get("X-Forwarded-For"); strings.Contains(got, "1.2.3.4") {
		t.Errorf("the visitor's X-Forwarded-For reached the origin: %q", got)
	}
}

func TestDeclaredProtocolIsTrusted(t *testing.T) {
	h, _ := proxy(t, []string{"x-forwarded-proto"}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"))
	})
	if got := ask(h, "http://h/", http.Header{"X-Forwarded-Proto": {"https"}}).Body.String(); got != "https" {
		t.Errorf("the origin saw %q", got)
	}
	if got := ask(h, "http://h/", nil).Body.String(); got != "http" {
		t.Errorf("without the header the origin saw %q", got)
	}
}

func TestRedirectsNameTheVisitorsHost(t *testing.T) {
	location := ""
	h, address := proxy(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	})
	for in, want := range map[string]string{
		address.String() + "/a?b=1#c": "/a?b=1#c",
		address.String():              "/",
		"/relative":                   "/relative",
		"https://elsewhere.example/":  "https://elsewhere.example/",
		"http://site.example/kept":    "http://site.example/kept",
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
	h := gateway.Renderer(down, nil, slog.New(slog.NewTextHandler(&log, nil)))
	w := ask(h, "http://site.example/secret", nil)
	if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), down.Host) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the visitor got %d %q %v", w.Code, w.Body, w.Header())
	}
	if !strings.Contains(log.String(), down.Host) {
		t.Errorf("the log does not name the origin: %s", log.String())
	}
}

func TestBodyPassesUntouched(t *testing.T) {
	h, _ := proxy(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Encoding", "gzip") // it is not, and nobody looks
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
