// Package hostile attacks the real isr binary, from clients that can reach its port and
// from an origin that is broken or compromised:
//
//	hostile clients (raw sockets) ──► isr serve ──► hostile origins (raw sockets)
//	                                      ▲
//	                              a regular visitor, after each attack
//
// Every attack is bounded in time and number. After each attack, the same process must
// render a page that was not requested before. Attacks that need no process are in the
// tests of package gateway.
package hostile

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Attacks mostly wait, so more of them run at once than there are processors, unless
	// -parallel is given.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("6"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(process.Main(m))
}

// patience bounds every wait of an attack.
const patience = 5 * time.Minute

// site is the served host.
const site = "site.test"

// A target is an isr serve under attack.
type target struct {
	t       *testing.T
	process *process.Process
	address string
	data    string
	asked   atomic.Int64 // regular visits so far
}

// startTarget starts isr serve in front of an origin.
func startTarget(t *testing.T, origin string, args ...string) *target {
	t.Helper()
	return startTargetBy(t, nil, origin, args...)
}

// startTargetBy starts isr serve by a command that gets its line as arguments.
func startTargetBy(t *testing.T, by []string, origin string, args ...string) *target {
	t.Helper()
	dir := t.TempDir()
	line := append([]string{"serve", "--data", "data", "--origin", origin, "--listen", "127.0.0.1:0", "--host", site, "--admin", "none"}, args...)
	line = slices.Concat(by, []string{process.Binary(t, "../..")}, line)
	cmd := exec.CommandContext(context.Background(), line[0], line[1:]...) //nolint:gosec // a test
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "ISR_STORE_TIMEOUT=10s"}
	p, url := process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(p.Kill) // a graceful shutdown would wait for origins that hang
	g := &target{t: t, process: p, address: strings.TrimPrefix(url, "http://"), data: filepath.Join(dir, "data")}
	return g
}

// healthy requests, as a regular visitor, a page that was not requested before.
func (g *target) healthy() {
	g.t.Helper()
	path := fmt.Sprintf("/healthy/%d", g.asked.Add(1))
	began := time.Now()
	res := g.raw("GET " + path + " HTTP/1.1\r\nHost: " + site + "\r\nConnection: close\r\n\r\n")
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(body) != "healthy "+path {
		g.t.Errorf("a regular visitor of %s got %d %.100q, %v", path, res.StatusCode, body, err)
	}
	if took := time.Since(began); took > time.Minute { // the origin answers at once, the machine may be busy
		g.t.Errorf("a regular visitor of %s waited %s", path, took)
	}
}

// healthyPage answers requests for healthy pages. It returns false for other paths.
func healthyPage(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/healthy/") {
		return false
	}
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	_, _ = io.WriteString(w, "healthy "+r.URL.Path)
	return true
}

// startOrigin starts an origin that serves healthy pages, and passes other requests to h. asked
// counts the requests to h.
func startOrigin(t *testing.T, h http.HandlerFunc) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !healthyPage(w, r) {
			asked.Add(1)
			h(w, r)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, asked
}

func (g *target) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// raw sends bytes on a new connection, and returns the first response that is not interim
// (1xx).
func (g *target) raw(request string) *http.Response {
	g.t.Helper()
	res, err := g.tryRaw(request)
	if err != nil {
		g.t.Fatalf("%.80q: %v", request, err)
	}
	return res
}

func (g *target) tryRaw(request string) (*http.Response, error) {
	g.t.Helper()
	conn := g.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	for in := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, err
		}
	}
}

// stored returns the output of isr ls, one line per page.
func (g *target) stored() string {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), process.Binary(g.t, "../.."), "ls", "--json", "--data", g.data)
	cmd.Env = []string{"HOME=" + g.data}
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("isr ls: %v", err)
	}
	return string(out)
}

// await polls until done returns true. Attacks wait nowhere else.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("timed out after %s waiting for %s", patience, what)
		}
	}
}
