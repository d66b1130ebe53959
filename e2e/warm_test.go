package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// isr warm renders what a sitemap names and is not fresh, goes on where it was interrupted, and can
// leave the renders to a queue and its worker.
func TestWarm(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	const pages = 12
	o.set("/", page(3600, 0))
	names := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<urlset>")
		for i := range pages {
			fmt.Fprintf(w, "<url><loc>http://%s/p%d</loc></url>", host, i)
		}
		fmt.Fprint(w, "<url><loc>http://other.example/</loc></url></urlset>")
	}))
	t.Cleanup(names.Close)
	g := serve(t, c.settings(t), o)
	s := g.here()
	warm := func(args ...string) string {
		t.Helper()
		_, port, err := net.SplitHostPort(names.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return string(s.output(t, "warm", append([]string{
			"--sitemap", "http://names.example:" + port + "/sitemap.xml", "--resolve", "names.example:" + port + ":127.0.0.1", "--host", host,
		}, args...)...))
	}
	o.set("/p7", func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		page(3600, 0)(w, r, n)
	})
	state := filepath.Join(t.TempDir(), "state")
	first := s.command(t.Context(), t, "warm", "--sitemap", names.URL, "--host", host, "--state", state, "--concurrency", "1")
	if out, err := first.Output(); err == nil || !strings.Contains(string(out), "12 pages: 11 rendered, 0 fresh, 1 failed; 1 skipped, 0 done before") {
		t.Errorf("the first run: %s, %v", out, err)
	}
	await(t, "the back-off to end", patience, func() bool {
		out, err := s.command(t.Context(), t, "warm", "--sitemap", names.URL, "--host", host, "--state", state, "--concurrency", "1").Output()
		return err == nil && strings.Contains(string(out), "1 pages: 1 rendered, 0 fresh, 0 failed; 1 skipped, 11 done before")
	})
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the file of the state is left: %v", err)
	}
	if out := warm("--json"); !strings.Contains(out, `"rendered":0,"fresh":12,"failed":0`) {
		t.Errorf("fresh pages: %s", out)
	}
	for i := range pages {
		if n := o.count(fmt.Sprint("/p", i)); n > 2 || i != 7 && n != 1 {
			t.Errorf("page %d was rendered %d times", i, n)
		}
	}
	q := newQueues(t, c)
	q.worker(t, c, o)
	cloud := c.settings(t)
	out := string(cloud.output(t, "warm", "--sitemap", names.URL, "--host", host, "--force", "--queue", q.url))
	if !strings.Contains(out, "12 pages sent") {
		t.Errorf("sent to the queue: %s", out)
	}
	await(t, "the queue to be empty", patience, func() bool { return q.left(t, q.url) == 0 })
	if n := o.count("/p0"); n != 2 {
		t.Errorf("page 0 was rendered %d times, want once more", n)
	}
}
