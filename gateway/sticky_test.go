package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/facetheory/isr/gateway"
)

var secretOfSticky = strings.Repeat("s", 32)

// stickyVisit sends a request with cookies, and returns the body and the Set-Cookie fields of the response.
func stickyVisit(h http.Handler, method, path, cookie string) (body string, set []string, w *httptest.ResponseRecorder) {
	r := httptest.NewRequest(method, "http://example.com"+path, http.NoBody)
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String(), w.Header().Values("Set-Cookie"), w
}

func TestSticky(t *testing.T) {
	var leaked atomic.Bool
	server := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Cookie"), "lb=") {
				leaked.Store(true)
			}
			fmt.Fprint(w, name, " ", r.Header.Get("Cookie"))
		}))
		t.Cleanup(s.Close)
		return s
	}
	a, b := server("a"), server("b")
	s := behind(t, gateway.Origin{Balance: gateway.BalanceRoundRobin, Sticky: gateway.Sticky{Cookie: "lb", Secret: secretOfSticky}}, a.URL, b.URL)
	body, set, _ := stickyVisit(s, http.MethodPost, "/a", "")
	if len(set) != 1 || !strings.HasSuffix(set[0], "; Path=/; HttpOnly; SameSite=Lax") || strings.Contains(set[0], "127.0.0.1") {
		t.Fatalf("Set-Cookie %q", set)
	}
	first, _, _ := strings.Cut(body, " ")
	cookie, _, _ := strings.Cut(set[0], ";")
	for range 6 {
		body, set, _ := stickyVisit(s, http.MethodPost, "/a", "session=1; "+cookie)
		if body != first+" session=1" || set != nil {
			t.Errorf("a kept visitor got %q and %q", body, set)
		}
	}
	if leaked.Load() {
		t.Error("the origin gets the cookie")
	}
	// What a visitor makes up assigns nothing.
	for _, forged := range []string{"lb=", "lb=" + a.URL, "lb=0", cookie + "A", "lb=" + strings.Repeat("x", 5000), "lb=%00; lb=\"\"", strings.ToUpper(cookie)} {
		if _, set, _ := stickyVisit(s, http.MethodPost, "/a", forged); len(set) != 1 {
			t.Errorf("with %.40s: %q", forged, set)
		}
	}
	// An address that is gone: its visitors are assigned anew.
	map[string]*httptest.Server{"a": a, "b": b}[first].Close()
	body, set, _ = stickyVisit(s, http.MethodDelete, "/a", cookie) // idempotent: a connection may end while it is sent
	if strings.HasPrefix(body, first+" ") || len(set) != 1 {
		t.Fatalf("after its address is gone, a visitor got %q and %q", body, set)
	}
	moved, _, _ := strings.Cut(set[0], ";")
	if _, set, _ := stickyVisit(s, http.MethodPost, "/a", moved); set != nil {
		t.Errorf("then %q", set)
	}
}

// A page is stored and served without the cookie, and visitors with it share the page, whoever causes the render.
func TestStickyLeaksNothing(t *testing.T) {
	a, b := newEcho(t, "a"), newEcho(t, "b")
	s := behind(t, gateway.Origin{Sticky: gateway.Sticky{Cookie: "lb", Secret: secretOfSticky}}, a.URL, b.URL)
	_, set, _ := stickyVisit(s, http.MethodPost, "/a", "")
	cookie, _, _ := strings.Cut(set[0], ";")
	for _, sent := range []string{cookie, "", cookie, "lb=forged"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			_, set, w := stickyVisit(s, method, "/page/1", sent)
			if set != nil {
				t.Errorf("%s with %q: a page has %q", method, sent, set)
			}
			status := w.Header().Get("Cache-Status")
			if sent != cookie && !strings.Contains(status, "hit") {
				t.Errorf("%s with %q: %s", method, sent, status)
			}
		}
	}
	if n := a.requests.Load() + b.requests.Load(); n != 2 {
		t.Errorf("%d requests for one page, and a POST", n)
	}
}

// Requests of https visitors get a cookie for https only.
func TestStickySecure(t *testing.T) {
	s := behind(t, gateway.Origin{Sticky: gateway.Sticky{Cookie: "lb", Secret: secretOfSticky}}, newEcho(t, "a").URL, newEcho(t, "b").URL)
	r := httptest.NewRequest(http.MethodPost, "http://example.com/a", http.NoBody)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(gateway.Listener{PublicScheme: "https"}.Context(r.Context())))
	if set := w.Header().Get("Set-Cookie"); !strings.HasSuffix(set, "; Secure") {
		t.Errorf("Set-Cookie %q", set)
	}
}
