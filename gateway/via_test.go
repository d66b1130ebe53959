package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// TestVia: RFC 9110, section 7.6.3. Renders carry nothing of the visitor's.
func TestVia(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header["Via"], "|"))
	}))
	t.Cleanup(origin.Close)
	address, err := gateway.ParseOrigin(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := gateway.New(newCache(t), isr.Route{Revalidate: time.Minute}, gateway.Config{Origin: address, Logger: slog.New(slog.DiscardHandler)})
	for method, want := range map[string]string{http.MethodGet: `^1\.1 isr-\w{12}$`, http.MethodPost: `^1\.0 fred, 1\.1 p\.example\.net, 1\.1 isr-\w{12}$`} {
		r := httptest.NewRequest(method, "http://example.com/", http.NoBody)
		r.Header["Via"] = []string{"1.0 fred", "1.1 p.example.net"}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !regexp.MustCompile(want).MatchString(w.Body.String()) {
			t.Errorf("%s: the origin got Via: %q, want %s", method, w.Body, want)
		}
	}
}

// TestLoop: an origin that leads back to the gateway is an error at once, not a wait of the
// render for itself.
func TestLoop(t *testing.T) {
	for name, build := range map[string]func(origin *url.URL) http.Handler{
		"handler": func(origin *url.URL) http.Handler {
			return gateway.New(newCache(t), isr.Route{}, gateway.Config{Origin: origin, Logger: slog.New(slog.DiscardHandler)})
		},
		"site": func(origin *url.URL) http.Handler {
			return newSite(t, newCache(t), gateway.SiteConfig{
				Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "self"}},
				Origins: map[string]gateway.Origin{"self": {URLs: []*url.URL{origin}}},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(nil)
			t.Cleanup(server.Close)
			self, err := gateway.ParseOrigin("http://" + server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			h := build(self)
			server.Config.Handler = h
			server.Start()
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if w := visit(h, method, "http://example.com/"); w.Code != http.StatusLoopDetected || !strings.Contains(w.Body.String(), "leads back to this cache") {
					t.Errorf("%s: %d %q, want 508", method, w.Code, w.Body)
				}
			}
		})
	}
}
