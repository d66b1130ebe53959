package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// previous is the commit of the version before this one, from which fleets are upgraded. It moves
// with each release.
const previous = "f4b0778"

// previousBinary builds the previous version from the history of the repository, once for a folder
// .tools. A clone without that history gives the binary by ISR_TEST_PREVIOUS, or the test does not run,
// which fails in CI.
func previousBinary(t *testing.T) string {
	t.Helper()
	if os.Getenv("ISR_TEST_PREVIOUS") != "" {
		return os.Getenv("ISR_TEST_PREVIOUS")
	}
	binary, err := filepath.Abs(filepath.Join("..", ".tools", "previous", previous, runtime.Version(), "isr"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	folder := t.TempDir()
	archive, built := filepath.Join(folder, "source.tar"), binary+"."+filepath.Base(folder)
	if err := exec.CommandContext(t.Context(), "git", "-C", "..", "archive", "-o", archive, previous).Run(); err != nil {
		return isrtest.Engine(t, "ISR_TEST_PREVIOUS", "binary of the previous version (commit "+previous+" is not in the history)")
	}
	// Without -trimpath, with which Go would compile all modules again.
	for _, line := range [][]string{{"tar", "-xf", archive, "-C", folder}, {"go", "build", "-C", folder, "-ldflags=-w", "-o", built, "./cmd/isr"}} {
		if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("building the previous version: %q: %v\n%s", line, err, out)
		}
	}
	if err := os.Rename(built, binary); err != nil { // complete, for all tests that look now
		t.Fatal(err)
	}
	return binary
}

// serveBy is serve of a given binary.
func serveBy(t *testing.T, binary string, s settings, o *origin) *gateway {
	t.Helper()
	args := append([]string{"--origin", o.server.URL, "--listen", "127.0.0.1:0", "--host", host, "--host", "127.0.0.1"}, s.args...)
	cmd := s.command(context.Background(), t, "serve", args...)
	cmd.Path, cmd.Args[0] = binary, binary
	g := &gateway{settings: s}
	g.process, g.url = process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(g.kill)
	return g
}

// A balancer sends visitors to the servers of a fleet, which change.
type balancer struct {
	mu   sync.Mutex
	urls []string       // guarded by mu
	next int            // guarded by mu
	open map[string]int // guarded by mu: requests that were sent and have no response yet, by URL
}

func (b *balancer) set(fleet ...*gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls = nil
	for _, g := range fleet {
		b.urls = append(b.urls, g.url)
	}
}

// begin returns the server of a request, which ends with end.
func (b *balancer) begin() (url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	url = b.urls[b.next%len(b.urls)]
	if b.open == nil {
		b.open = make(map[string]int)
	}
	b.open[url]++
	return url
}

func (b *balancer) end(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[url]--
}

// idle reports whether a server has no request.
func (b *balancer) idle(url string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[url] == 0
}

// A fleet is upgraded server by server under load, and one server back: visitors notice nothing, what
// one version stores the other serves, purges reach both, and no page is rendered by both at once.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	old := previousBinary(t)
	current := process.Binary(t, "..")
	var rendering, together atomic.Int64
	o.set("/hot/", func(w http.ResponseWriter, r *http.Request, n int) {
		if rendering.Add(1) > 1 {
			together.Add(1)
		}
		page(2, 50*time.Millisecond)(w, r, n)
		rendering.Add(-1)
	})
	o.set("/", page(3600, 0))
	one, two := serveBy(t, old, c.settings(t), o), serveBy(t, old, c.settings(t), o)
	var lb balancer
	lb.set(one, two)
	visitors, client := make(chan struct{}), browsers(t)
	var visiting sync.WaitGroup
	var visits, failed atomic.Int64
	for range 4 {
		visiting.Go(func() {
			for {
				select {
				case <-visitors:
					return
				default:
				}
				url := lb.begin()
				r := visit(context.WithoutCancel(t.Context()), client, http.MethodGet, url+"/hot/page")
				lb.end(url)
				if visits.Add(1); r.err != nil || r.status != http.StatusOK || renderingOf("/hot/page", r.body) == 0 {
					failed.Add(1)
					t.Errorf("a visitor gets %s", r)
				}
				time.Sleep(5 * time.Millisecond) // of a visitor
			}
		})
	}
	stored := func(by, other *gateway, path string) {
		t.Helper()
		if r := get(t, by.url+path); r.status != http.StatusOK {
			t.Errorf("%s: %s", path, r)
		}
		if r := get(t, other.url+path); !r.hit() || r.body != bodyOf(path, 1) {
			t.Errorf("%s, which the other version has stored: %s", path, r)
		}
		s := other.here()
		s.output(t, "purge", "--hard", host+path)
		await(t, "the purge to reach the other version", patience, func() bool { return get(t, by.url+path).body == bodyOf(path, 2) })
	}
	replace := func(binary string, leaving, staying *gateway) *gateway {
		t.Helper()
		fresh := serveBy(t, binary, c.settings(t), o)
		lb.set(fresh, leaving, staying)
		lb.set(fresh, staying)
		await(t, "the requests that the load balancer has sent before", patience, func() bool { return lb.idle(leaving.url) })
		leaving.terminate(t)
		leaving.awaitExit(t, patience)
		return fresh
	}
	three := replace(current, one, two)
	stored(two, three, "/old")
	stored(three, two, "/new")
	four := replace(current, two, three)
	back := replace(old, three, four)
	stored(four, back, "/downgraded")
	awaitClock(t, "some visits of the mixed fleet", time.Now().Add(3*time.Second))
	close(visitors)
	visiting.Wait()
	t.Logf("%d visits, %d failed, %d renders of the page", visits.Load(), failed.Load(), o.count("/hot/page"))
	if n := together.Load(); n > 0 {
		t.Errorf("%d renders began while another was in progress", n)
	}
	for _, g := range []*gateway{four, back} {
		for key, p := range g.here().stored(t) {
			if p.BodyProblem != "" || p.Malformed != "" {
				t.Errorf("%s: %s%s", key, p.BodyProblem, p.Malformed)
			}
		}
		if log := g.process.Log(); strings.Contains(log, "level=ERROR") {
			t.Errorf("a server of the mixed fleet logged errors:\n%s", log)
		}
	}
}
