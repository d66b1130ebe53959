package simulator

import (
	"context"
	"strings"
	"time"
)

// recover stops the faults and checks that the fleet recovers: every page becomes fresh on every
// node, everything in progress ends, and no goroutine is left. Each must happen within
// pace.recovery: remaining leases and back-offs expire, by skewed clocks, and renders take
// time.
func (w *world) recover() {
	w.nextStep() // the visitors below come at an instant of their own
	w.log("the faults stop")
	w.mu.Lock()
	w.recovered = true
	w.mu.Unlock()
	w.thaw(true)
	w.mend()
	w.profile.faults, w.profile.lost = 0, nil
	w.freshenAll()
	if w.violation == nil {
		w.closeCaches()
	}
	w.checkPurges()
}

// deadline returns when the recovery must be complete.
func (w *world) deadline() time.Time {
	w.delays.lost = 0
	return time.Now().Add(w.pace.recovery)
}

func (w *world) freshenAll() {
	for _, n := range w.nodes {
		for _, p := range w.pages {
			w.freshen(n.life, p)
			if w.violation != nil || w.delays.excused {
				return
			}
		}
	}
}

// freshen sends visitors to a page until one gets it fresh.
func (w *world) freshen(l *life, p *page) {
	deadline := w.deadline()
	for time.Now().Before(deadline) {
		w.until(deadline, func() bool { return w.mayVisit(l, p) })
		v := w.visit(l, p)
		w.until(deadline, func() bool { return v.ended })
		if w.violation != nil || v.isFresh() {
			return
		}
		pause := time.Now().Add(w.pace.of(time.Second))
		w.until(pause, func() bool { return false })
	}
	w.tooLate("every page becomes fresh", "%s did not have %s fresh within %s", l.name, p.path, w.pace.recovery)
}

// isFresh reports whether a visitor got a page that was fresh by the node's clock, or pinned.
func (v *visitor) isFresh() bool {
	if !v.ended {
		return false
	}
	status := v.header.Get("Cache-Status")
	late := strings.Contains(status, "; stored") && strings.Contains(status, "; ttl=-") // the render took too long
	said := strings.Contains(status, "; ttl=") || strings.HasSuffix(status, "detail=pinned")
	return v.status == 200 && said && isFresh(status) && !late
}

// until takes steps without faults until so returns true, or the deadline passes.
func (w *world) until(deadline time.Time, so func() bool) {
	for {
		w.settle()
		if w.violation != nil || so() || !time.Now().Before(deadline) {
			return
		}
		w.nextStep()
		if calls := w.gate.choosable(time.Now()); len(calls) > 0 {
			w.deliver(calls[0])
			continue
		}
		w.idle(min(time.Until(deadline), w.pace.glance))
	}
}

// closeCaches closes the caches in an orderly way, as an operator does.
func (w *world) closeCaches() {
	deadline := w.deadline()
	closed := 0
	for _, n := range w.nodes {
		n.life.closing = make(chan error, 1)
		w.ended.Go(func() { n.life.closing <- n.life.cache.Close(context.Background()) })
	}
	w.until(deadline, func() bool {
		for _, n := range w.nodes[closed:] {
			if len(n.life.closing) == 0 {
				return false
			}
			closed++
		}
		return true
	})
	w.until(deadline, func() bool {
		asking := 0
		for _, n := range w.nodes {
			asking += n.life.asking
		}
		return asking == 0
	})
	for _, n := range w.nodes {
		if n.life.asking > 0 {
			w.tooLate("everything ends", "%s still has %d calls in progress", n.life.name, n.life.asking)
		}
	}
	if w.violation == nil && closed < len(w.nodes) {
		w.tooLate("a cache closes", "%s did not close within %s", w.nodes[closed].life.name, w.pace.recovery)
	}
}
