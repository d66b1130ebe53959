package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
)

// originAddress is the variable with the address at which the test binary serves a site, instead of testing.
const originAddress = "ISR_E2E_ORIGIN"

// serveOrigin serves a site whose pages name its address, until the process is killed.
func serveOrigin(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("origin at %s\n", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "from %s", address)
	}))
}

// startOrigin starts a process that serves a site at an address, and waits until it does.
func startOrigin(t *testing.T, address string) *process.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), originAddress+"="+address)
	p := process.Start(t, cmd)
	t.Cleanup(p.Kill)
	p.Await(t, "its address", patience, func() bool { return strings.Contains(p.Log(), "origin at ") })
	return p
}

// Two origins under load, of which one is killed: no visitor sees an error. When it is back, it gets load again.
// Without health checks, isr learns both from the requests of the visitors.
func TestKilledOrigin(t *testing.T) {
	for name, health := range map[string]string{"checked": ", health: {path: /healthz, interval: 100ms, timeout: 100ms, failures: 1}", "unchecked": ""} {
		t.Run(name, func(t *testing.T) { killOrigin(t, health) })
	}
}

func killOrigin(t *testing.T, health string) {
	const visitors = 8
	one, other := freeAddress(t), freeAddress(t)
	startOrigin(t, one)
	killed := startOrigin(t, other)
	s := embedded(t).raced()
	s.env = append(s.env, "ISR_ADMIN=none")
	s.writeFile(t, "isr.yaml", fmt.Sprintf(`listen: [{address: "127.0.0.1:0"}]
hosts: [%s]
origins: {site: {url: ["http://%s", "http://%s"], slow_start: 1s, ejection: {time: 200ms, max_time: 1s}%s}}
routes:
  - {match: /page/, revalidate: 1h}
  - {match: /live/, cache: "off"}
`, host, one, other, health))
	p, url := s.serveFile(t)

	var answered, fromOther atomic.Int64
	client := browsers(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for i := range visitors {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path := "/live/" + strconv.Itoa(n)
				if n%2 == 0 {
					path = fmt.Sprintf("/page/%d/%d", i, n) // a render
				}
				r := visit(context.Background(), client, http.MethodGet, url+path)
				if r.err != nil || r.status != http.StatusOK || !strings.HasPrefix(r.body, "from ") {
					t.Errorf("%s: a visitor got %v", path, r)
					return
				}
				answered.Add(1)
				if strings.HasSuffix(r.body, other) {
					fromOther.Add(1)
				}
			}
		})
	}
	grows := func(what string, n *atomic.Int64, by int64) {
		t.Helper()
		before := n.Load()
		p.Await(t, what, patience, func() bool { return n.Load() >= before+by || t.Failed() })
	}
	grows("load of the second address", &fromOther, 50)
	killed.Signal(t, syscall.SIGKILL)
	killed.Kill() // waits
	grows("load without the second address", &answered, 500)
	startOrigin(t, other)
	began := time.Now()
	grows("load of the address that is back", &fromOther, 100)
	t.Logf("%d requests, of which none failed; the killed address had 100 requests %s after it was back", answered.Load(), time.Since(began).Round(time.Millisecond))
	stop()
	load.Wait()
	if !strings.Contains(p.Log(), "is ejected") && !strings.Contains(p.Log(), "is down") {
		t.Error("the log does not name the address that was killed")
	}
}
