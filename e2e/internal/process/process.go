// Package process runs programs for the end-to-end tests: it keeps their output, waits
// for their progress, and ends them with the test. It also builds the isr binary.
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

// endTime is how long a process may take to end after SIGTERM before it is killed.
const endTime = 15 * time.Second

// A Process is a program that has been started. Its methods may be called from
// several goroutines of its test.
type Process struct {
	cmd   *exec.Cmd
	log   log
	ended chan struct{} // closed when it has ended
	err   error         // of its end; valid then
}

// Start starts a command, which must not be bound to the context of the test: that
// ends too early. At the end of the test the process gets SIGTERM and, after endTime,
// SIGKILL; its output is logged if the test failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.WaitDelay = endTime // for processes that it started and that outlive it
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			const most = 20_000
			text := p.Log()
			t.Logf("%s wrote:\n%s", p, text[max(0, len(text)-most):])
		}
	})
	return p
}

// Serve starts a command of isr that serves, waits until its log has what announced
// matches, and returns that expression's first group: the address. At the end of
// the test the log must be free of panics and data races.
func Serve(t testing.TB, cmd *exec.Cmd, announced *regexp.Regexp) (p *Process, address string) {
	t.Helper()
	p = Start(t, cmd)
	t.Cleanup(func() {
		p.end()
		for _, bad := range []string{"panic", "DATA RACE", "fatal error"} {
			if strings.Contains(p.Log(), bad) {
				t.Errorf("the log of %s has %q", p, bad)
			}
		}
	})
	p.Await(t, "its address", time.Minute, func() bool {
		found := announced.FindStringSubmatch(p.Log())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return p, address
}

// String is the program's name.
func (p *Process) String() string { return filepath.Base(p.cmd.Path) }

// Log is what the process has written so far.
func (p *Process) Log() string { return p.log.String() }

// Await polls until ready, and fails the test if the process ends first or that
// takes too long.
func (p *Process) Await(t testing.TB, what string, within time.Duration, ready func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s ended (%v) before %s; it wrote:\n%s", p, p.err, what, p.Log())
		case <-deadline:
			t.Fatalf("%s: waited %s in vain for %s; it wrote:\n%s", p, within, what, p.Log())
		}
	}
}

// Terminate sends the signal of an orderly stop.
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
		t.Fatalf("%s: %v: %v", p, sig, err)
	}
}

// AwaitEnd waits for the end of a process that got SIGTERM, which must be a
// success, and returns how long that took.
func (p *Process) AwaitEnd(t testing.TB, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("waited %s in vain for the end of %s", within, p)
	}
	if p.err != nil {
		t.Errorf("%s ended with %v, expected success", p, p.err)
	}
	return time.Since(began)
}

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// end tells the process to end, and kills it if it does not.
func (p *Process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(endTime):
		p.Kill()
	}
}

// A log is what a process has written so far.
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
