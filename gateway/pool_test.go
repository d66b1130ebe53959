package gateway_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// behind returns a site whose only origin has these addresses, of which requests prefer the first unless o says otherwise.
func behind(t *testing.T, o gateway.Origin, addresses ...string) *gateway.Site {
	t.Helper()
	o.Balance = cmp.Or(o.Balance, gateway.BalanceFirst)
	for _, a := range addresses {
		o.URLs = append(o.URLs, parse(t, a))
	}
	return newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": o},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site"}, {Pattern: "/page/", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"}},
	})
}

// closed returns the address of a server that does not exist any more.
func closed(t *testing.T) string {
	e := newEcho(t, "closed")
	e.Close()
	return e.URL
}

// Requests of every kind go to the next address if one does not accept connections.
func TestFailoverOfUnreachableAddress(t *testing.T) {
	up := newEcho(t, "up")
	s := behind(t, gateway.Origin{}, closed(t), up.URL)
	expectVisit(t, s, "GET", "http://example.com/page/1", "up GET /page/1", "isr; fwd=miss; fwd-status=200; stored")
	expectVisit(t, s, "GET", "http://example.com/a", "up GET /a", "isr; fwd=")
	r := httptest.NewRequest(http.MethodPost, "http://example.com/a", strings.NewReader("body"))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != "up POST /a" {
		t.Errorf("POST: %d %q", w.Code, w.Body)
	}
	none := behind(t, gateway.Origin{}, closed(t), closed(t))
	if w := visit(none, "GET", "http://example.com/a"); w.Code != http.StatusBadGateway {
		t.Errorf("without any server: %d", w.Code)
	}
}

// A crashing server reads the request and closes the connection.
func crashing(t *testing.T) (address string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		answerRaw(w, "")
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// A request that a server may have executed is sent to another one only if its method is
// idempotent.
func TestFailoverOfBrokenConnection(t *testing.T) {
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{http.MethodGet, "", http.StatusOK},
		{http.MethodHead, "", http.StatusOK},
		{http.MethodDelete, "", http.StatusOK},
		{http.MethodPost, "", http.StatusBadGateway},
		{http.MethodPost, "body", http.StatusBadGateway},
		{http.MethodPatch, "", http.StatusBadGateway},
		{http.MethodPut, "body", http.StatusBadGateway}, // the body is gone
	} {
		address, requests := crashing(t)
		up := newEcho(t, "up")
		s := behind(t, gateway.Origin{}, address, up.URL)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(c.method, "http://example.com/a", strings.NewReader(c.body)))
		if again := up.requests.Load() > 0; w.Code != c.status || again != (c.status == http.StatusOK) || requests.Load() != 1 {
			t.Errorf("%s %q: %d, the other server got %d requests, this one %d", c.method, c.body, w.Code, up.requests.Load(), requests.Load())
		}
		// The address is avoided now.
		if w := visit(s, "POST", "http://example.com/a"); w.Code != http.StatusOK {
			t.Errorf("after %s: %d", c.method, w.Code)
		}
	}
}

// A response that has begun is not replaced by another server's, and a slow server is
// not given up for another one.
func TestNoFailover(t *testing.T) {
	up := newEcho(t, "up")
	begun := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerRaw(w, "HTTP/1.1 2") }))
	defer begun.Close()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	for address, want := range map[string]int{begun.URL: http.StatusBadGateway, slow.URL: http.StatusGatewayTimeout} {
		s := behind(t, gateway.Origin{ResponseTimeout: 50 * time.Millisecond}, address, up.URL)
		if w := visit(s, "GET", "http://example.com/a"); w.Code != want || up.requests.Load() != 0 {
			t.Errorf("got %d, %d requests to the other server; expected %d", w.Code, up.requests.Load(), want)
		}
	}
}

// Health checks take an address out of use, and back.
func TestHealthChecks(t *testing.T) {
	var sick atomic.Bool
	var checks atomic.Int64
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			checks.Add(1)
			if sick.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		fmt.Fprint(w, "first")
	}))
	defer first.Close()
	second := newEcho(t, "second")
	s := behind(t, gateway.Origin{Health: gateway.HealthCheck{Path: "/healthz", Interval: 5 * time.Millisecond, Timeout: 10 * time.Second, Failures: 2}}, first.URL, second.URL)
	await := func(body string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			if got := visit(s, "GET", "http://example.com/a").Body.String(); got == body {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("still %q; expected %q", got, body)
			}
		}
	}
	await("first")
	sick.Store(true)
	await("second GET /a")
	sick.Store(false)
	await("first")
	s.Close()
	before := checks.Load()
	visit(s, "GET", "http://example.com/a")
	if n := checks.Load() - before; n > 1 { // one may have been in flight
		t.Errorf("%d checks after Close", n)
	}
}

// A redirect to any address of the origin becomes one of the site.
func TestRedirectToAnotherAddress(t *testing.T) {
	var second *httptest.Server
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", second.URL+"/there")
		w.WriteHeader(http.StatusFound)
	}))
	defer first.Close()
	second = httptest.NewServer(http.NotFoundHandler())
	defer second.Close()
	s := behind(t, gateway.Origin{}, first.URL, second.URL)
	if w := visit(s, "GET", "http://example.com/a"); w.Header().Get("Location") != "/there" {
		t.Errorf("Location %q", w.Header().Get("Location"))
	}
}

// Each listener has its own public scheme; renders have the site's.
func TestListenerScheme(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto")) }))
	defer origin.Close()
	s := newSite(t, newCache(t), gateway.SiteConfig{
		PublicScheme: "https", Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, origin.URL)}}},
		Routes: []gateway.SiteRoute{{Pattern: "/", Origin: "site"}},
	})
	r := httptest.NewRequest(http.MethodPost, "http://example.com/a", http.NoBody)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(gateway.Listener{PublicScheme: "http"}.Context(r.Context())))
	if w.Body.String() != "http" {
		t.Errorf("a visitor of a plain listener: %q", w.Body)
	}
	if w := visit(s, "GET", "http://example.com/a"); w.Body.String() != "https" {
		t.Errorf("a page: %q", w.Body)
	}
}
