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
	pages   = 6 // of a round, contended by all workers
	workers = 3 // in each process
)

// A fleet runs processes on one table and collects their history.
type fleet struct {
	t        *testing.T
	endpoint string
	table    string
	until    time.Time
	rounds   int // that have ended

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	clients int                   // processes so far; guarded by mu
	killed  int                   // guarded by mu
	frozen  int                   // guarded by mu
}

// run runs the processes for d, and repeats that on a busy machine until every expected kind of
// answer has occurred, at most twelve times. Each round has pages of its own: the time to check a
// page grows exponentially with its unanswered calls.
func (f *fleet) run(d time.Duration) {
	const most = 12
	for f.rounds < most && len(f.missing()) > 0 && !f.t.Failed() {
		f.until = time.Now().Add(d)
		f.runOnce()
		f.rounds++
	}
}

// runOnce runs processes until f.until. Two slots kill and replace their process, one freezes
// its process for longer than a lease, and one does not disturb it.
func (f *fleet) runOnce() {
	lives := []func(*process, time.Duration){f.killSoon, f.killSoon, f.freezeOften, f.runToEnd}
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

// live starts one process, subjects it to live, and adds its events to the history.
func (f *fleet) live(left time.Duration, live func(*process, time.Duration)) {
	f.mu.Lock()
	f.clients++
	client := f.clients
	f.mu.Unlock()
	p, err := start(workerConfig{Name: fmt.Sprintf("p%d", client), Endpoint: f.endpoint, Table: f.table, FirstPage: f.rounds * pages, Workers: workers, For: left})
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

func (f *fleet) runToEnd(p *process, _ time.Duration) { f.expectEnd(p) }

// expectEnd waits for a process to exit without being killed.
func (f *fleet) expectEnd(p *process) {
	const patience = 5 * time.Minute // for its last calls
	select {
	case <-p.done:
	case <-time.After(time.Until(f.until) + patience):
		p.kill()
	}
	if p.err != nil {
		f.t.Errorf("worker process: %v", p.err)
	}
}

// killSoon kills a process in the middle of its calls, if it makes enough of them.
func (f *fleet) killSoon(p *process, left time.Duration) {
	const shortest, longest = 500 * time.Millisecond, 3 * time.Second
	after := shortest + rand.N(longest-shortest)
	if after > left {
		f.expectEnd(p)
		return
	}
	select {
	case <-p.done:
		f.t.Errorf("worker process exited before it was killed: %v", p.err)
	case <-time.After(after):
		select {
		case <-p.seen:
		case <-time.After(time.Until(f.until)):
			f.expectEnd(p)
			return
		}
		p.kill()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.killed++
	}
}

// freezeOften repeatedly stops a process for longer than its leases last.
func (f *fleet) freezeOften(p *process, _ time.Duration) {
	const awake, asleep = time.Second, 3500 * time.Millisecond
	for time.Until(f.until) > awake+asleep {
		for _, next := range []struct {
			after  time.Duration
			signal syscall.Signal
		}{{awake, syscall.SIGSTOP}, {asleep, syscall.SIGCONT}} {
			<-time.After(next.after)
			if err := p.cmd.Process.Signal(next.signal); err != nil {
				f.t.Errorf("send %s to worker process: %v", next.signal, err)
			}
		}
		f.mu.Lock()
		f.frozen++
		f.mu.Unlock()
	}
	f.expectEnd(p)
}

// readAll ends the history with a read of every row that the history names.
func (f *fleet) readAll() {
	var events []event
	w := newWorker("last", f.endpoint, f.table, 0)
	w.report = func(e event) { events = append(events, e) }
	w.prepare()
	requests := make(map[int][]string)
	for _, o := range f.history {
		c := o.Input.(modelInput)
		if c.Request != "" && !slices.Contains(requests[c.Page], c.Request) {
			requests[c.Page] = append(requests[c.Page], c.Request)
		}
	}
	for at := range f.rounds * pages {
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
