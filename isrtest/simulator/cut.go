package simulator

import (
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// A cut is a network partition of a machine: until it ends, calls hang. While bodies are
// denied, calls are refused.
type cut struct {
	table, bodies time.Time
	denied        time.Time // until then, calls for bodies are refused
}

// cut cuts a machine off from the table, the bodies, or both, or revokes its permission to
// use the bodies, for a while. Some cuts last longer than a lease or any timeout, and
// some begin when a page is about to be published.
func (w *world) cut(n *node) {
	longest := []time.Duration{4 * time.Second, 20 * time.Second, 100 * time.Second, 240 * time.Second}[w.rng.IntN(4)]
	d := w.pace.of(time.Second + time.Duration(w.rng.Int64N(int64(longest))))
	until := time.Now().Add(d)
	what := []string{"the table", "the bodies", "the table and the bodies", "denied"}[w.rng.IntN(4)]
	if l := w.storing(); l != nil && w.rng.IntN(4) > 0 {
		n, what, until = l.node, "the bodies", until.Add(w.pace.of(2*renderTimeout))
	}
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	if what == "denied" {
		w.log("%s is denied the bodies for %.3fs", n.name, d.Seconds())
		n.cut.denied = later(n.cut.denied, until)
		return
	}
	w.log("%s cannot reach %s for %.3fs", n.name, what, time.Until(until).Seconds())
	if what != "the bodies" {
		n.cut.table = later(n.cut.table, until)
		w.counts["table hangs"]++
	}
	if what != "the table" {
		n.cut.bodies = later(n.cut.bodies, until)
		w.counts["bucket hangs"]++
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mend ends all cuts.
func (w *world) mend() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	for _, n := range w.nodes {
		n.cut = cut{}
	}
}

// isDenied reports whether a call is refused for a missing permission.
func (w *world) isDenied(c *call) bool {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return c.kind == body && c.life.node.cut.denied.After(time.Now())
}

// errDenied is the response to a denied call.
var errDenied = fmt.Errorf("simulator: %w", store.ErrDenied)

// hangsUntilLocked returns when a hanging call can continue; the zero time if it does not
// hang. Callers must hold gate.mu.
func (c *call) hangsUntilLocked() time.Time {
	if c.kind == body {
		return c.life.node.cut.bodies
	}
	return c.life.node.cut.table
}
