package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A gateway is a process that runs isr serve.
type gateway struct {
	settings
	url    string
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{} // closed when the process has ended
	err    error         // of the process; valid then
}

// serve starts isr serve in front of an origin and waits until it listens. At
// the end of the test the process is killed, and its log must be free of panics
// and data races.
func serve(t *testing.T, s settings, origin *origin) *gateway {
	t.Helper()
	args := append([]string{"--origin", origin.server.URL, "--listen", "127.0.0.1:0"}, s.args...)
	g := &gateway{
		settings: s,
		// Not the test's context: it ends before the cleanup.
		cmd:    s.command(context.Background(), t, "serve", args...),
		log:    new(logBuffer),
		exited: make(chan struct{}),
	}
	g.cmd.Stderr = g.log
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.err = g.cmd.Wait()
		close(g.exited)
	}()
	t.Cleanup(func() {
		g.kill(t)
		g.inspectLog(t)
	})
	address := regexp.MustCompile(`msg="serving (http://[^"]+)"`)
	await(t, "isr serve to listen", patience, func() bool {
		if m := address.FindStringSubmatch(g.log.String()); m != nil {
			g.url = m[1]
			return true
		}
		if g.hasExited() {
			t.Fatalf("isr serve: %v\n%s", g.err, g.log)
		}
		return false
	})
	return g
}

func (g *gateway) hasExited() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}

// kill is kill -9 of the process and all it may have started.
func (g *gateway) kill(t *testing.T) {
	t.Helper()
	if g.hasExited() {
		return
	}
	if err := syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("kill -9: %v", err)
	}
	<-g.exited
}

// terminate sends the signal of an orderly stop.
func (g *gateway) terminate(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v", err)
	}
}

// awaitExit waits for the end of a process that was told to stop, and returns
// how long that took.
func (g *gateway) awaitExit(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	took := await(t, "isr serve to end", within, g.hasExited)
	if g.err != nil {
		t.Errorf("isr serve ended with %v, expected success\n%s", g.err, g.log)
	}
	return took
}

func (g *gateway) inspectLog(t *testing.T) {
	t.Helper()
	text := g.log.String()
	for _, bad := range []string{"panic", "DATA RACE", "fatal error"} {
		if strings.Contains(text, bad) {
			t.Errorf("the log of isr serve has %q", bad)
		}
	}
	if t.Failed() {
		const most = 20_000
		t.Logf("the log of isr serve:\n%s", text[max(0, len(text)-most):])
	}
}

// A logBuffer is what a process has written so far.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
