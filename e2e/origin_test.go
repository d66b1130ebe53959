package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// An origin is the site behind the gateway. It counts requests and has a behaviour for each
// path.
type origin struct {
	server *httptest.Server
	quit   chan struct{} // closed at the end of the test; ends what hangs

	mu     sync.Mutex
	pages  map[string]behaviour
	visits map[string][]time.Time // when each request for a path began
}

// A behaviour answers the n-th request for a path, n being 1 for the first.
type behaviour func(w http.ResponseWriter, r *http.Request, n int)

// newOrigin starts an origin without pages.
func newOrigin(t testing.TB) *origin {
	t.Helper()
	o := &origin{quit: make(chan struct{}), pages: make(map[string]behaviour), visits: make(map[string][]time.Time)}
	o.server = httptest.NewServer(o)
	t.Cleanup(func() {
		close(o.quit)
		o.server.CloseClientConnections()
		o.server.Close()
	})
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	path := r.URL.Path
	b := o.pages[path]
	for prefix := path; b == nil && prefix != ""; { // "/a/" answers for all below it
		prefix = prefix[:strings.LastIndexByte(prefix, '/')]
		b = o.pages[prefix+"/"]
	}
	o.visits[path] = append(o.visits[path], time.Now())
	n := len(o.visits[path])
	o.mu.Unlock()
	if b == nil {
		http.NotFound(w, r)
		return
	}
	b(w, r, n)
}

// set changes the behaviour of a path; a path that ends in a slash includes all paths below.
func (o *origin) set(path string, b behaviour) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pages[path] = b
}

// count returns the number of requests for a path.
func (o *origin) count(path string) int { return len(o.times(path)) }

// times returns when the requests for a path began.
func (o *origin) times(path string) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Time(nil), o.visits[path]...)
}

// awaitVisit waits for the n-th request for a path.
func (o *origin) awaitVisit(t *testing.T, path string, n int, within time.Duration) time.Duration {
	t.Helper()
	return await(t, fmt.Sprintf("request %d for %s at the origin", n, path), within, func() bool { return o.count(path) >= n })
}

// page is a valid page with a freshness window of whole seconds that takes delay to render.
func page(window int, delay time.Duration) behaviour {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if !pause(r, delay) {
			return
		}
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d, stale-while-revalidate=86400", window))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(bodyOf(r.URL.Path, n)))
	}
}

// pause waits for the delay of a page; it is false if the request ends first.
func pause(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// hang never answers.
func (o *origin) hang(_ http.ResponseWriter, r *http.Request, _ int) {
	select {
	case <-r.Context().Done():
	case <-o.quit:
	}
}

// bodyOf is the n-th rendering of a page, about 4 KiB.
func bodyOf(path string, n int) string {
	return fmt.Sprintf("<!doctype html><title>%s</title><p>rendering %d\n", path, n) + strings.Repeat(path+" lorem ipsum\n", 4096/(len(path)+13))
}

// renderingOf returns the number of the rendering of a body made by bodyOf; 0 if it belongs to
// another path or is incomplete.
func renderingOf(path, body string) int {
	_, rest, _ := strings.Cut(body, "<p>rendering ")
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(digits)
	if err != nil || body != bodyOf(path, n) {
		return 0
	}
	return n
}
