package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/draft"
)

const draftSecret, otherSecret = "a-secret-of-16-bytes", "another-secret-of-it"

// A cms is an origin that shows drafts to requests with X-Isr-Draft, and notes what it gets.
type cms struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func newCMS(t *testing.T) *cms {
	c := new(cms)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r)
		c.mu.Unlock()
		w.Header().Set("Cache-Control", "s-maxage=3600")
		w.Header().Set("CDN-Cache-Control", "max-age=3600")
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
		fmt.Fprintf(w, "draft %q", r.Header["X-Isr-Draft"])
	}))
	t.Cleanup(c.Close)
	return c
}

// seen returns the requests so far, and forgets them.
func (c *cms) seen() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.requests
	c.requests = nil
	return seen
}

func draftSite(t *testing.T, secrets ...string) (http.Handler, *cms) {
	t.Helper()
	origin := newCMS(t)
	site := newSite(t, newCache(t), gateway.SiteConfig{
		Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site"}, {Pattern: "/off/", Origin: "site", Route: isr.Route{Off: true}}},
		Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, origin.URL)}}},
	})
	all, err := gateway.ParseHosts([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := gateway.EdgeConfig{Hosts: all, Logger: slog.New(slog.DiscardHandler)}
	return gateway.Edge(cfg, gateway.Drafts(secrets, site, site)), origin
}

func draftToken(t *testing.T, secret, host, scope string, life time.Duration) string {
	t.Helper()
	token, err := draft.Sign(secret, draft.Grant{Host: host, Scope: scope, Expires: time.Now().Add(life)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// asks sends a request with headers, "Name: value".
func asks(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestDraft(t *testing.T) {
	h, origin := draftSite(t, draftSecret)
	token := draftToken(t, draftSecret, "example.com", "/", time.Hour)
	asks(h, "GET", "http://example.com/post?")
	origin.seen()

	w := asks(h, "GET", "http://example.com/post?a=1&isr-draft="+token+"&b=2")
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/post?a=1&b=2" || cookie != "isr-draft="+token ||
		w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "private, no-store" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	for _, want := range []string{"; Path=/;", "; HttpOnly", "; SameSite=Lax", "; Max-Age=3"} {
		if got := w.Header().Get("Set-Cookie"); !strings.Contains(got, want) || strings.Contains(got, "Secure") {
			t.Errorf("%q in %q", want, got)
		}
	}
	if got := asks(h, "GET", "https://example.com/?isr-draft="+token).Header().Get("Set-Cookie"); !strings.HasSuffix(got, "; Secure") {
		t.Errorf("by HTTPS: %q", got)
	}
	if n := len(origin.seen()); n > 0 {
		t.Errorf("the origin got %d requests", n)
	}

	for _, path := range []string{"/post", "/another", "/off/", "/gone", "/post?unknown=1"} {
		w := asks(h, "GET", "http://example.com"+path, "Cookie: theme=dark; "+cookie, "Cookie: "+cookie)
		if got := w.Header().Get("Cache-Status"); !strings.HasPrefix(got, "isr; fwd=bypass") || !strings.HasSuffix(got, "; detail=draft") ||
			w.Body.String() != `draft ["1"]` || w.Header().Get("Cache-Control") != "private, no-store" || w.Header().Get("CDN-Cache-Control") != "" {
			t.Errorf("%s: %q %v", path, w.Body, w.Header())
		}
		for _, r := range origin.seen() {
			if text := fmt.Sprint(r.URL, r.Header); strings.Contains(text, token) || strings.Contains(text, "isr-draft") || r.Header.Get("Cookie") != "theme=dark" {
				t.Errorf("the origin got %s", text)
			}
		}
	}
	// The draft path writes nothing: neither what it has seen, nor the purge of a POST, nor a
	// withdrawal.
	asks(h, "POST", "http://example.com/post", "Cookie: "+cookie)
	origin.seen()
	if w := asks(h, "GET", "http://example.com/post"); !strings.HasPrefix(w.Header().Get("Cache-Status"), "isr; hit") || w.Body.String() != "draft []" {
		t.Errorf("a visitor gets %q, %q", w.Body, w.Header().Get("Cache-Status"))
	}
	if w := asks(h, "GET", "http://example.com/another"); !strings.HasPrefix(w.Header().Get("Cache-Status"), "isr; fwd=miss") || w.Body.String() != "draft []" {
		t.Errorf("a visitor gets %q, %q", w.Body, w.Header().Get("Cache-Status"))
	}
}

func TestDraftEnds(t *testing.T) {
	h, _ := draftSite(t, draftSecret)
	token := draftToken(t, draftSecret, "example.com", "/blog/", time.Hour)
	w := asks(h, "GET", "http://example.com/blog/a?isr-draft=off", "Cookie: isr-draft="+token)
	cookies := w.Header()["Set-Cookie"]
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/blog/a" || len(cookies) != 2 ||
		!strings.Contains(cookies[0], "isr-draft=; Path=/; Max-Age=0") || !strings.Contains(cookies[1], "isr-draft=; Path=/blog/; Max-Age=0") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	// A path that looks like a host is not left.
	if w := asks(h, "GET", "http://example.com//evil.example/?isr-draft=off"); w.Header().Get("Location") != "/.//evil.example/" {
		t.Errorf("redirected to %q", w.Header().Get("Location"))
	}
}

// A token that is not valid is no bypass: the visitor gets the cached page, and the origin
// gets nothing.
func TestInvalidDraftTokens(t *testing.T) {
	for name, token := range map[string]string{
		"forged":           "1.4102444800.Lw." + strings.Repeat("A", 43),
		"nothing":          "",
		"text":             "yes",
		"too long":         strings.Repeat("a", 5000),
		"expired":          draftToken(t, draftSecret, "example.com", "/", -time.Second),
		"for another host": draftToken(t, draftSecret, "example.org", "/", time.Hour),
		"for another path": draftToken(t, draftSecret, "example.com", "/blog", time.Hour),
		"after rotation":   draftToken(t, "the-secret-before-the-last", "example.com", "/", time.Hour),
	} {
		h, origin := draftSite(t, draftSecret, otherSecret)
		asks(h, "GET", "http://example.com/post")
		origin.seen()
		for how, w := range map[string]*httptest.ResponseRecorder{
			"query":       asks(h, "GET", "http://example.com/post?isr-draft="+token),
			"cookie":      asks(h, "GET", "http://example.com/post", "Cookie: isr-draft="+token),
			"both":        asks(h, "GET", "http://example.com/post?isr-draft="+token, "Cookie: isr-draft="+token),
			"own header":  asks(h, "GET", "http://example.com/post", "X-Isr-Draft: 1", "Cookie: isr-draft="+token),
			"twice":       asks(h, "GET", "http://example.com/post?isr-draft="+token+"&isr-draft=1", "Cookie: isr-draft="+token+"; isr-draft=2"),
			"with method": asks(h, "HEAD", "http://example.com/post?isr-draft="+token),
		} {
			if got := w.Header().Get("Cache-Status"); !strings.HasPrefix(got, "isr; hit") || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s, by %s: %d %v", name, how, w.Code, w.Header())
			}
		}
		if n := len(origin.seen()); n > 0 {
			t.Errorf("%s: the origin got %d requests", name, n)
		}
	}
}

// A visitor cannot claim to be an editor, also where requests pass through.
func TestVisitorsCannotSendTheDraftHeader(t *testing.T) {
	h, _ := draftSite(t, draftSecret)
	for _, path := range []string{"/off/", "/?unknown=1"} {
		if w := asks(h, "GET", "http://example.com"+path, "X-Isr-Draft: 1"); w.Body.String() != "draft []" {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

// Both secrets are accepted while one is replaced, and only the scope of a token.
func TestDraftScopesAndRotation(t *testing.T) {
	h, origin := draftSite(t, draftSecret, otherSecret)
	for _, secret := range []string{draftSecret, otherSecret} {
		cookie := "Cookie: isr-draft=" + draftToken(t, secret, "example.com", "/blog", time.Hour)
		for path, want := range map[string]bool{"/blog": true, "/blog/a": true, "/blogs": false, "/": false, "/blog/../admin": false, "/blog/%2e%2e/admin": false} {
			w := asks(h, "GET", "http://example.com"+path, cookie)
			if got := w.Body.String() == `draft ["1"]`; got != want {
				t.Errorf("%s: %d %q", path, w.Code, w.Body)
			}
		}
	}
	if !slices.ContainsFunc(origin.seen(), func(r *http.Request) bool { return r.Header.Get("X-Isr-Draft") != "" }) {
		t.Error("no draft was requested")
	}
}
