package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/testbed"
)

// cached returns a gateway with a cache, in front of an origin with the given responses.
func cached(t *testing.T, cfg budget.Config, origin http.HandlerFunc) (h http.Handler, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(origin)
	t.Cleanup(server.Close)
	address, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	cache := testbed.Cache(t, testbed.Table(t), isr.Config{})
	cfg.Logger = quiet
	route := isr.Route{Revalidate: time.Minute, Budget: budget.New(cfg)}
	return gateway.New(cache, route, gateway.Config{Origin: address, Logger: quiet}), server
}

func from(h http.Handler, client, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody)
	r.RemoteAddr = client
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The circuit breaker opens for an unreachable origin, but not for one that responds to
// unknown URLs with errors or an invalid status.
func TestOnlyUnreachableOriginOpensCircuitBreaker(t *testing.T) {
	h, server := cached(t, budget.Config{Failures: 3}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/broken"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/status"):
			answerRaw(w, "HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n")
		}
		fmt.Fprint(w, "a page")
	})
	for i := range 10 {
		from(h, fmt.Sprintf("192.0.2.%d:1", i), fmt.Sprint("/broken", i))
		from(h, fmt.Sprintf("192.0.2.%d:1", i), fmt.Sprint("/status", i))
	}
	if w := from(h, "192.0.2.1:1", "/good"); w.Code != http.StatusOK {
		t.Errorf("after broken pages: %d %q", w.Code, w.Header().Get("Cache-Status"))
	}
	server.Close()
	for i := range 3 {
		if w := from(h, "192.0.2.1:1", fmt.Sprint("/down", i)); w.Code != http.StatusBadGateway {
			t.Errorf("without an origin: %d %q", w.Code, w.Header().Get("Cache-Status"))
		}
	}
	if w := from(h, "192.0.2.1:1", "/next"); !strings.HasSuffix(w.Header().Get("Cache-Status"), "detail=origin-failing") {
		t.Errorf("after three connections were refused: %d %q", w.Code, w.Header().Get("Cache-Status"))
	}
}

// answerRaw responds with exactly these bytes.
func answerRaw(w http.ResponseWriter, answer string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte(answer)) // the client sees it if not
	_ = conn.Close()
}

// One IPv4 address, or one IPv6 /64, does not starve the renders of other clients.
func TestOneClientDoesNotStarveOthers(t *testing.T) {
	for _, attacker := range []string{"192.0.2.1:%d", "[2001:db8::%d]:1"} {
		release := make(chan struct{})
		entered := make(chan struct{}, 100)
		h, _ := cached(t, budget.Config{Renders: 4}, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/slow") {
				entered <- struct{}{}
				<-release
			}
			fmt.Fprint(w, "a page")
		})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { from(h, fmt.Sprintf(attacker, i+1), fmt.Sprint("/slow", i)) })
		}
		<-entered
		<-entered
		for i, other := range []string{"192.0.2.2:1", "[2001:db8:0:1::1]:1"} {
			if w := from(h, other, fmt.Sprint("/good", i)); w.Code != http.StatusOK {
				t.Errorf("%s beside %s: %d %q", other, attacker, w.Code, w.Header().Get("Cache-Status"))
			}
		}
		close(release)
		wg.Wait()
	}
}
