//go:build linux || darwin

package leases

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	pages   = 6 // that all workers fight for
	workers = 3 // in each process
)

// A fleet is processes on one table, and what becomes of them.
type fleet struct {
	t        *testing.T
	endpoint string
	table    string
	until    time.Time

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	clients int                   // processes so far; guarded by mu
	killed  int                   // guarded by mu
	frozen  int                   // guarded by mu
}

// run has processes work for a time, and for further ones on a machine that is too
// busy for all kinds of answers to be given in one.
func (f *fleet) run(d time.Duration) {
	const most = 6
	for times := 0; times < most && len(f.missing()) > 0 && !f.t.Failed(); times++ {
		f.until = time.Now().Add(d)
		f.runOnce()
	}
}

// runOnce has processes work until a moment: some are killed and replaced, one is
// frozen for longer than its leases last, and one lives in peace.
func (f *fleet) runOnce() {
	lives := []func(*process, time.Duration){f.killSoon, f.killSoon, f.freezeOften, f.leaveAlone}
	var group sync.WaitGroup
	for _, live := range lives {
		group.Go(func() {
			for left := time.Until(f.until); left > 0 && !f.t.Failed(); left = time.Until(f.until) {
				f.live(left, live)
			}
		})
	}
	group.Wait()
}

// live is the life of one process.
func (f *fleet) live(left time.Duration, live func(*process, time.Duration)) {
	f.mu.Lock()
	f.clients++
	client := f.clients
	f.mu.Unlock()
	p, err := start(order{Name: fmt.Sprintf("p%d", client), Endpoint: f.endpoint, Table: f.table, Workers: workers, For: left})
	if err != nil {
		f.t.Error(err)
		return
	}
	f.t.Cleanup(p.kill) // if the test ends early
	live(p, left)
	history, err := operations(client, p.events, p.died)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history = append(f.history, history...)
}

func (f *fleet) leaveAlone(p *process, _ time.Duration) { f.expectEnd(p) }

// expectEnd waits for a process to end by itself.
func (f *fleet) expectEnd(p *process) {
	const patience = time.Minute // for its last calls
	select {
	case <-p.done:
	case <-time.After(time.Until(f.until) + patience):
		p.kill()
	}
	if p.err != nil {
		f.t.Errorf("a process of workers: %v", p.err)
	}
}

// killSoon kills a process in the middle of its calls.
func (f *fleet) killSoon(p *process, left time.Duration) {
	const shortest, longest = 500 * time.Millisecond, 3 * time.Second
	after := shortest + rand.N(longest-shortest)
	if after > left {
		f.expectEnd(p)
		return
	}
	select {
	case <-p.done:
		f.t.Errorf("a process of workers ended early: %v", p.err)
	case <-time.After(after):
		p.kill()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.killed++
	}
}

// freezeOften stops a process for longer than its leases last, again and again.
func (f *fleet) freezeOften(p *process, _ time.Duration) {
	const awake, asleep = time.Second, 3500 * time.Millisecond
	for time.Until(f.until) > awake+asleep {
		for _, next := range []struct {
			after  time.Duration
			signal syscall.Signal
		}{{awake, syscall.SIGSTOP}, {asleep, syscall.SIGCONT}} {
			<-time.After(next.after)
			if err := p.cmd.Process.Signal(next.signal); err != nil {
				f.t.Errorf("%s to a process of workers: %v", next.signal, err)
			}
		}
		f.mu.Lock()
		f.frozen++
		f.mu.Unlock()
	}
	f.expectEnd(p)
}

// lookAround ends the history by reading every row that it knows of.
func (f *fleet) lookAround() {
	var events []event
	w := newWorker("last", f.endpoint, f.table, 0)
	w.report = func(e event) { events = append(events, e) }
	w.prepare()
	requests := make(map[int][]string)
	for _, o := range f.history {
		c := o.Input.(asked)
		if c.Request != "" && !slices.Contains(requests[c.Page], c.Request) {
			requests[c.Page] = append(requests[c.Page], c.Request)
		}
	}
	for at := range pages {
		w.read(at)
		for _, name := range requests[at] {
			w.lookUp(at, name)
		}
	}
	history, err := operations(0, events, machineClock())
	if err != nil {
		f.t.Error(err)
	}
	f.history = append(f.history, history...)
}
