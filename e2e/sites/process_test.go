package sites

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTime bounds how long a server may take to answer: these machines may be
// busy.
const startTime = 60 * time.Second

// An output keeps what a process writes.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// start runs a command until the test ends. What it wrote is shown if the test
// failed.
func start(t *testing.T, name string, args ...string) (o *output, ended <-chan struct{}) {
	t.Helper()
	o = new(output)
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stdout, c.Stderr = o, o
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 15 * time.Second // then it is killed
	if err := c.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Wait() // it ends by our signal
	}()
	t.Cleanup(func() {
		<-done // the context of the test has ended already
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(name), o)
		}
	})
	return o, done
}

// await polls until ready, while the process lives.
func await(t *testing.T, what string, o *output, ended <-chan struct{}, ready func() bool) {
	t.Helper()
	deadline := time.After(startTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("%s ended; it wrote:\n%s", what, o)
		case <-deadline:
			t.Fatalf("%s does not answer after %s; it wrote:\n%s", what, startTime, o)
		}
	}
}

// startSite serves the site in a folder and returns its address.
func startSite(t *testing.T, folder string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o, ended := start(t, filepath.Join(folder, "run"), "serve", strconv.Itoa(port))
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	await(t, "the site in "+folder, o, ended, func() bool {
		res, err := http.Get(address)
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	})
	return address
}

// buildISR compiles the command as users get it.
func buildISR(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "isr")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/isr").CombinedOutput(); err != nil {
		t.Fatalf("building isr: %v\n%s", err, out)
	}
	return program
}

// A gate is a running isr serve.
type gate struct {
	program, address, data string
}

// startGate runs isr serve in front of a site.
func startGate(t *testing.T, program, origin string, flags ...string) gate {
	t.Helper()
	g := gate{program: program, data: filepath.Join(t.TempDir(), "isr-data")}
	flags = append([]string{"serve", "--origin", origin, "--listen", "127.0.0.1:0", "--data", g.data}, flags...)
	o, ended := start(t, program, flags...)
	serving := regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`)
	await(t, "isr serve", o, ended, func() bool {
		found := serving.FindStringSubmatch(o.String())
		if found != nil {
			g.address = found[1]
		}
		return found != nil
	})
	return g
}

// stored is what isr ls says of a running server.
func (g gate) stored(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), g.program, "ls", "--json", "--data", g.data).CombinedOutput()
	if err != nil {
		t.Fatalf("isr ls: %v\n%s", err, out)
	}
	return string(out)
}
