package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// After SIGTERM a server is no longer ready, serves for --drain, and then accepts no more
// requests.
func TestDrain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	g := serve(t, embedded(t, "--health", "127.0.0.1:0", "--health-path", "/-/ready", "--drain", "8s"), o)
	if r := get(t, g.url+"/-/ready"); r.status != http.StatusOK || !strings.Contains(r.body, `"ready"`) {
		t.Errorf("before: %s %s", r, r.body)
	}
	g.terminate(t)
	await(t, "not to be ready", patience, func() bool {
		r := get(t, g.url+"/-/ready")
		return r.status == http.StatusServiceUnavailable && strings.Contains(r.body, `"draining"`)
	})
	if code, status, _ := ready(t, g); code != http.StatusServiceUnavailable || status != "draining" {
		t.Errorf("/readyz while draining: %d %s", code, status)
	}
	if r := get(t, g.url+"/"); r.status != http.StatusOK {
		t.Errorf("a visitor while draining: %s", r)
	}
	g.awaitExit(t, patience)
	if r := visit(t.Context(), browsers(t), http.MethodGet, g.url+"/"); !errors.Is(r.err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %s", r)
	}
}

// SIGTERM while visitors wait for renders, read pages and post forms: no request is cut off,
// and a regeneration in the background is published too.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	const waiting, delay = 40, 1500 * time.Millisecond
	o := newOrigin(t)
	o.set("/hit", page(3600, 0))
	o.set("/behind", page(1, 0))
	o.set("/cold/", page(3600, delay))
	o.set("/form", page(0, delay))
	s := embedded(t, "--max-renders", "0").raced() // all at once: the signal finds them in mid-render
	g := serve(t, s, o)
	get(t, g.url+"/hit")
	get(t, g.url+"/behind")
	awaitClock(t, "the page to expire", o.times("/behind")[0].Add(time.Second))
	o.set("/behind", page(3600, delay))

	readers := keepReading(t, g.url+"/hit")
	slow := make(chan []reply)
	go func() { slow <- storm(t, waiting, coldPages(g.url, waiting)...) }()
	posted := make(chan reply)
	client, ctx := browsers(t), t.Context()
	go func() { posted <- visit(ctx, client, http.MethodPost, g.url+"/form") }()
	get(t, g.url+"/behind")
	for _, path := range append(coldPages("", waiting), "/form") {
		o.awaitVisit(t, path, 1, patience)
	}
	o.awaitVisit(t, "/behind", 2, patience)
	g.terminate(t)

	expectAll(t, "a cold page", <-slow, func(r reply) bool {
		// On a busy machine the store may take longer than --store-timeout.
		stored := strings.Contains(r.cache(), "; stored") || strings.HasSuffix(r.cache(), "detail=unpublished")
		return r.status == http.StatusOK && stored && strings.HasSuffix(r.body, " lorem ipsum\n")
	})
	expectAll(t, "the form", []reply{<-posted}, func(r reply) bool { return r.status == http.StatusOK && r.body == bodyOf("/form", 1) })
	readers.end(t)
	took := g.awaitExit(t, patience)
	t.Logf("SIGTERM: %d visitors of cold pages and one form finished, %d reads of a hit were answered, none was cut; the process ended %s later",
		waiting, readers.served(), took.Round(time.Millisecond))

	g = serve(t, s, o)
	renders := map[string]int{"/behind": 2}
	for _, path := range coldPages("", waiting) {
		renders[path] = 1
	}
	for path, n := range renders {
		if r := get(t, g.url+path); !r.hit() || r.body != bodyOf(path, n) {
			t.Errorf("%s after the restart: got %s, expected what was rendered during the stop", path, r)
		}
	}
}

// coldPages returns the URLs of n cold pages; each costs the origin a render.
func coldPages(base string, n int) []string {
	pages := make([]string, n)
	for i := range pages {
		pages[i] = fmt.Sprintf("%s/cold/%d", base, i)
	}
	return pages
}

// A render that does not end is cancelled after the grace period and its lease is released:
// the next server regenerates the page at once, not after the lease of two minutes.
func TestShutdownReleases(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(1, 0))
	const grace = 2 * time.Second
	s := embedded(t, "--grace", "2s", "--lease", "2m")
	g := serve(t, s, o)
	get(t, g.url+"/")
	awaitClock(t, "the page to expire", o.times("/")[0].Add(time.Second))
	o.set("/", o.hang)
	get(t, g.url+"/")
	o.awaitVisit(t, "/", 2, patience)
	if p := g.get(t, host+"/"); p.LeaseOwner == "" || time.Until(p.LeaseUntil) < 70*time.Second {
		t.Errorf("isr get shows no lease of two minutes in mid-render: %+v", p)
	}
	g.terminate(t)
	took := g.awaitExit(t, grace+patience)

	o.set("/", page(60, time.Second))
	g = serve(t, s, o)
	if r := get(t, g.url+"/"); r.status != http.StatusOK || r.body != bodyOf("/", 1) {
		t.Errorf("after the restart: got %s, expected the stale copy", r)
	}
	again := o.awaitVisit(t, "/", 3, patience) // half the lease
	t.Logf("SIGTERM with a render that hangs: ended after %s; the next server regenerated within %s, the lease being 2m",
		took.Round(time.Millisecond), again.Round(time.Millisecond))
}

// A gateway that shares its store does so until its own requests are finished: the site may
// need the store to answer them.
func TestShutdownSharesToTheEnd(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	finish := make(chan struct{})
	o.set("/", func(w http.ResponseWriter, r *http.Request, n int) {
		<-finish
		page(60, 0)(w, r, n)
	})
	g := serve(t, embedded(t, "--dynamodb-listen", "127.0.0.1:0"), o)
	shared := regexp.MustCompile(`msg="serving DynamoDB on (http://[^"]+)"`).FindStringSubmatch(g.process.Log())[1]
	client, ctx := browsers(t), t.Context()
	waiting := make(chan reply)
	go func() { waiting <- visit(ctx, client, http.MethodGet, g.url+"/") }()
	o.awaitVisit(t, "/", 1, patience)
	g.terminate(t)
	await(t, "the gateway to take no more requests", patience, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, shared, http.NoBody) // it answers to its own name alone
	if err != nil {
		t.Fatal(err)
	}
	if r := do(client, req); r.status != http.StatusOK || !strings.HasPrefix(r.body, "healthy") {
		t.Errorf("while a page is being rendered the shared store answers %s, expected it to be healthy", r)
	}
	close(finish)
	if r := <-waiting; r.status != http.StatusOK || r.body != bodyOf("/", 1) {
		t.Errorf("the visitor got %s, expected the page", r)
	}
	g.awaitExit(t, patience)
}

// readers are clients that request one page repeatedly until the server is gone.
type readers struct {
	wg sync.WaitGroup

	mu    sync.Mutex
	count int
	cut   []reply
}

func keepReading(t *testing.T, url string) *readers {
	t.Helper()
	const visitors, most = 8, 100_000
	rd := new(readers)
	client, ctx := browsers(t), t.Context()
	for range visitors {
		rd.wg.Go(func() {
			for range most {
				if !rd.read(ctx, client, url) {
					return
				}
			}
		})
	}
	return rd
}

// read sends one GET; it is false once the server is gone. Like a browser, the client dials
// again if its idle connection was closed; if that is refused the server is gone, and the
// request was not cut off.
func (rd *readers) read(ctx context.Context, c *http.Client, url string) bool {
	r := visit(ctx, c, http.MethodGet, url)
	rd.mu.Lock()
	defer rd.mu.Unlock()
	switch {
	case errors.Is(r.err, syscall.ECONNREFUSED):
		return false
	case r.err != nil, r.status != http.StatusOK, !strings.HasSuffix(r.body, "lorem ipsum\n"):
		rd.cut = append(rd.cut, r)
		return false
	}
	rd.count++
	return true
}

func (rd *readers) served() int {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.count
}

// end waits until all readers have found the server gone, and reports requests that were cut
// off.
func (rd *readers) end(t *testing.T) {
	t.Helper()
	rd.wg.Wait()
	for _, r := range rd.cut {
		t.Errorf("a reader was cut off: %s", r)
	}
}
