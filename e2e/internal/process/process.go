// Package process runs programs for the end-to-end tests: it records their output, waits
// for their progress, and stops them at the end of the test. It also builds the isr binary.
package process

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// endTime is how long a process may take to exit after SIGTERM before it is killed.
const endTime = 15 * time.Second

// A Process is a started program. Its methods may be called concurrently.
type Process struct {
	cmd   *exec.Cmd
	log   log
	ended chan struct{} // closed after exit
	err   error         // of Wait; valid once ended is closed
}

// Start starts a command. The command must not be bound to the context of the test, which ends
// before the cleanups run. At the end of the test the process gets SIGTERM and, after endTime,
// SIGKILL; its output is logged if the test failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.WaitDelay = endTime // for child processes that outlive it
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			const most = 20_000
			text := p.Log()
			t.Logf("%s wrote:\n%s", p, text[max(0, len(text)-most):])
		}
	})
	return p
}

// Serve starts an isr server, waits until its log matches announced, and returns the first
// group of the match: the address. At the end of the test the log must contain no panics and no
// data races.
func Serve(t testing.TB, cmd *exec.Cmd, announced *regexp.Regexp) (p *Process, address string) {
	t.Helper()
	p = Start(t, cmd)
	t.Cleanup(func() {
		p.stop()
		for _, bad := range []string{"panic", "DATA RACE", "fatal error"} {
			if strings.Contains(p.Log(), bad) {
				t.Errorf("the log of %s contains %q", p, bad)
			}
		}
	})
	p.Await(t, "its address", 5*time.Minute, func() bool {
		found := announced.FindStringSubmatch(p.Log())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return p, address
}

// String returns the program's name.
func (p *Process) String() string { return filepath.Base(p.cmd.Path) }

// Log returns the output so far.
func (p *Process) Log() string { return p.log.String() }

// Await polls until ready returns true. It fails the test if the process exits first or within
// has passed.
func (p *Process) Await(t testing.TB, what string, within time.Duration, ready func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s exited (%v) before %s; output:\n%s", p, p.err, what, p.Log())
		case <-deadline:
			t.Fatalf("%s: timed out after %s waiting for %s; output:\n%s", p, within, what, p.Log())
		}
	}
}

// Terminate sends SIGTERM, which starts a graceful shutdown.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM to %s: %v", p, err)
	}
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %[2]v to %[1]s: %[3]v", p, sig, err)
	}
}

// AwaitEnd waits for the exit of a process that got SIGTERM, expects success, and returns how
// long it took.
func (p *Process) AwaitEnd(t testing.TB, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("timed out after %s waiting for %s to exit", within, p)
	}
	if p.err != nil {
		t.Errorf("%s exited with %v, expected success", p, p.err)
	}
	return time.Since(began)
}

// Kill sends SIGKILL and waits for the process to exit.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have exited
	<-p.ended
}

// stop sends SIGTERM, and SIGKILL if the process does not exit within endTime.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	select {
	case <-p.ended:
	case <-time.After(endTime):
		p.Kill()
	}
}

// A log is the output of a process so far.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
