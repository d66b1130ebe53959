package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A fastly is a server with Fastly's purge API that fails at first.
type fastly struct {
	*httptest.Server

	mu       sync.Mutex
	failures int // left; guarded by mu
	tried    int // guarded by mu
	purged   []string
}

func newFastly(t *testing.T, failures int) *fastly {
	t.Helper()
	f := &fastly{failures: failures}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tried++
		if r.Header.Get("Fastly-Key") != "s3cr3t-token" {
			t.Errorf("%s %s without the token", r.Method, r.URL)
		}
		if f.failures > 0 {
			f.failures--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		f.purged = append(f.purged, r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fastly) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tried
}

func (f *fastly) received() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.purged, ", ")
}

// TestOutboxSurvivesKill: a pin reaches a CDN although the CDN fails three times, and the
// server is killed in between.
func TestOutboxSurvivesKill(t *testing.T) {
	t.Parallel()
	o, cdn := newOrigin(t), newFastly(t, 3)
	o.set("/a", page(3600, 0))
	s := embedded(t, "--downstream", "edge=fastly:S1?endpoint="+cdn.URL)
	s.env = append(s.env, "ISR_DOWNSTREAM_EDGE_TOKEN=s3cr3t-token")
	g := serve(t, s, o)
	client := browsers(t)
	if r := visit(t.Context(), client, http.MethodGet, g.url+"/a"); r.err != nil {
		t.Fatal(r.err)
	}
	await(t, "the page to be stored", patience, func() bool { return len(s.stored(t)) == 1 })
	s.output(t, "pin", host+"/a")
	await(t, "failed deliveries", patience, func() bool { return cdn.attempts() >= 2 })
	g.kill()
	if got := cdn.received(); got != "" {
		t.Fatalf("the CDN has accepted %q", got)
	}
	if out := string(s.output(t, "outbox")); !strings.Contains(out, "edge/1") || !strings.Contains(out, "503") {
		t.Errorf("isr outbox prints %q, want the job and why it failed", out)
	}
	g = serve(t, s, o)
	defer g.kill()
	await(t, "the delivery", patience, func() bool { return cdn.received() == "POST /purge/"+host+"/a" })
	await(t, "an empty outbox", patience, func() bool { return !strings.Contains(string(s.output(t, "outbox")), "edge") })
	if out := string(s.output(t, "get", host+"/a")); strings.Contains(out, "s3cr3t-token") {
		t.Error("the token is shown")
	}
}
