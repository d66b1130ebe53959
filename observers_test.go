package isr_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// A ledger is the observer of nodes that have no other: each operation ends once.
type ledger struct{ operations atomic.Int64 }

func (l *ledger) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	l.operations.Add(1)
	var ended atomic.Bool
	return ctx, func(r isr.Result) {
		if ended.Swap(true) || r.Outcome == "" {
			panic(fmt.Sprintf("%s %s has ended twice, or without an outcome: %+v", op.Kind, op.Name, r))
		}
		l.operations.Add(-1)
	}
}

func (l *ledger) Join(work, request context.Context) {
	if work == nil || request == nil {
		panic("a join without a context")
	}
}

func (l *ledger) Note(e isr.Event) {
	if e.Kind == "" || e.Reason == "" && e.Kind != isr.EventApplied && e.Kind != isr.EventCollected {
		panic(fmt.Sprintf("an event without a kind or reason: %+v", e))
	}
}

// A notebook is an observer that keeps what it is told. Its operations are in the order in which
// they began.
type notebook struct {
	mu         sync.Mutex
	operations []*noted // guarded by mu
	events     []isr.Event
	joined     []*noted // for each request that joined, what it joined
	strangers  int      // joins of work that is no operation
}

// A noted operation has its result once it has ended.
type noted struct {
	isr.Operation
	isr.Result
	parent *noted
	lasted time.Duration // -1 until it has ended
}

type notedKey struct{}

func (n *notebook) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	parent, _ := ctx.Value(notedKey{}).(*noted)
	o := &noted{Operation: op, parent: parent, lasted: -1}
	n.operations = append(n.operations, o)
	began := time.Now()
	return context.WithValue(ctx, notedKey{}, o), func(r isr.Result) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if o.lasted >= 0 {
			panic(fmt.Sprintf("%s %s has ended twice", o.Kind, o.Name))
		}
		o.Result, o.lasted = r, time.Since(began)
	}
}

func (n *notebook) Join(work, _ context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o, ok := work.Value(notedKey{}).(*noted); ok {
		n.joined = append(n.joined, o)
		return
	}
	n.strangers++
}

func (n *notebook) Note(e isr.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

// take returns the operations of a kind that have ended, and forgets all. The test must be in a
// bubble of synctest.
func (n *notebook) take(t *testing.T, kind isr.OperationKind) (of []*noted) {
	t.Helper()
	synctest.Wait() // a poll of the log may have begun at this very moment
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.operations {
		if o.lasted < 0 {
			t.Errorf("%s %s has not ended", o.Kind, o.Name)
		}
		if o.Kind == kind {
			of = append(of, o)
		}
	}
	n.operations = nil
	return of
}

// only returns the only operation of a kind, and forgets all.
func (n *notebook) only(t *testing.T, kind isr.OperationKind) *noted {
	t.Helper()
	of := n.take(t, kind)
	if len(of) != 1 {
		t.Fatalf("%d operations %q, want 1", len(of), kind)
	}
	return of[0]
}

// reasons returns the reasons of the events of a kind.
func (n *notebook) reasons(kind isr.EventKind) (of []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Kind == kind {
			of = append(of, e.Reason)
		}
	}
	return of
}

// calls returns the names and the outcomes of the store calls among operations.
func (n *notebook) calls(kind isr.OperationKind) (of []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.operations {
		if o.Kind == kind {
			of = append(of, o.Name+" "+o.Outcome)
		}
	}
	return of
}

func (n *notebook) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.operations, n.events, n.joined = nil, nil, nil
}

func (n *notebook) observe(cfg *isr.Config) { cfg.Observer = n }

// only returns the only event of a kind.
func only(t *testing.T, n *notebook, kind isr.EventKind) (e isr.Event) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	of := slices.DeleteFunc(slices.Clone(n.events), func(e isr.Event) bool { return e.Kind != kind })
	if len(of) != 1 {
		t.Fatalf("%d events %q, want 1", len(of), kind)
	}
	return of[0]
}
