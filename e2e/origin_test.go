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

// An origin is the site behind the gateway. It counts what it is asked, and
// behaves per path as it is told.
type origin struct {
	server *httptest.Server
	quit   chan struct{} // closed at the end of the test; ends what hangs

	mu     sync.Mutex
	pages  map[string]behaviour
	visits map[string][]time.Time // when each request for a path began
}

// A behaviour answers the n-th request for a path, n being 1 for the first.
type behaviour func(w http.ResponseWriter, r *http.Request, n int)

// newOrigin starts an origin that knows no pages yet.
func newOrigin(t *testing.T) *origin {
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

// set makes a path behave in a way from now on; a path that ends in a slash
// stands for all below it.
func (o *origin) set(path string, b behaviour) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pages[path] = b
}

// count is the number of requests for a path so far.
func (o *origin) count(path string) int { return len(o.times(path)) }

// times are when the requests for a path began.
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

// page is a good page, fresh for a window of whole seconds, that takes a delay
// to render.
func page(window int, delay time.Duration) behaviour {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if !pause(r, delay) {
			return
		}
		w.Header().Set("Cache-Control", fmt.Sprintf("s-maxage=%d", window))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(bodyOf(r.URL.Path, n)))
	}
}

// pause is the time a page takes; false if the request ends before.
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

// renderingOf is the number of the rendering that a body of bodyOf is; 0 if it
// is none of that path, or not whole.
func renderingOf(path, body string) int {
	_, rest, _ := strings.Cut(body, "<p>rendering ")
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(digits)
	if err != nil || body != bodyOf(path, n) {
		return 0
	}
	return n
}
