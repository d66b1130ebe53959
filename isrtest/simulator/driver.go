package simulator

import (
	"math/rand/v2"
	"time"
)

// tick is the resolution of time. Each step happens at an instant of its own, a multiple
// of it. So timers that were set in different steps end at different instants, and the
// effects of a step do not depend on the order of goroutines.
const tick = time.Millisecond

// A choice is a possible next step of the driver.
type choice struct {
	name   string
	weight int // 0: not now
	take   func()
}

// choices are all possible steps. A new operation of the fleet is one more line here,
// and a file with its step and its checks.
func (w *world) choices() []choice {
	calls := w.gate.choosable(time.Now())
	awake := w.awake()
	some := func(weight int) int {
		if len(awake) == 0 {
			return 0
		}
		return weight
	}
	p := w.profile
	deliver, wait, visits := 0, 20, 15
	if p.quiet {
		visits = 4
	}
	purges := 0
	if w.pace.purgeEvery == 1 || w.rng.IntN(w.pace.purgeEvery) == 0 {
		purges = 1
	}
	if w.tears.active() {
		wait, visits = 4, 25
	}
	follows := 0
	if w.mayFollow() {
		follows = 300
	}
	if len(calls) > 0 {
		deliver = 60
		if p.prompt {
			wait = 0
		}
	}
	return []choice{
		{"deliver", deliver, func() { w.deliver(w.oneOf(calls)) }},
		{"wait", wait, w.pass},
		{"visit", some(visits), func() { w.visitIfMay(pick(w.rng, awake).life, pick(w.rng, w.pages)) }},
		{"crash", p.crashes, func() { w.crash(pick(w.rng, w.nodes)) }},
		{"freeze", some(p.freezes), func() { w.freeze(pick(w.rng, awake).life) }},
		{"regenerate", some(p.forces), func() { w.regenerate(pick(w.rng, awake).life, w.somePage()) }},
		{"assert", some(p.assertions), func() { w.assert(pick(w.rng, awake).life, pick(w.rng, w.pages)) }},
		{"demand", some(p.demands), func() { w.demand(pick(w.rng, awake).life, pick(w.rng, w.pages)) }},
		{"collect", some(p.collections), func() { w.collect(pick(w.rng, awake).life) }},
		{"external", p.externals, func() { w.writeExternally(pick(w.rng, w.pages)) }},
		{"cut", p.cuts, func() { w.cut(pick(w.rng, w.nodes)) }},
		{"damage", p.damages, w.damage},
		{"rush", p.rushes, func() { w.rush = 4 + w.rng.IntN(8) }},
		{"hasten", some(min(w.rush, 1) * 300), func() { w.hasten(pick(w.rng, awake).life) }},
		{"revert", some(min(w.reverts, 1) * 100), func() { w.revert(pick(w.rng, awake).life) }},
		{"purge", purges * p.purges, func() { w.purge(pick(w.rng, w.pages)) }},
		{"purge through a node", some(purges * p.nodePurges), func() { w.purgeBy(pick(w.rng, awake).life) }},
		{"post", some(purges * p.posts), func() { w.post(pick(w.rng, awake).life, pick(w.rng, w.pages)) }},
		{"post again", follows, w.follow},
		{"purge by tag", purges * p.tagPurges, func() { w.purgeTag(pick(w.rng, tags())) }},
	}
}

// drive executes one step.
func (w *world) drive() {
	w.nextStep()
	w.thaw(false)
	choices := w.choices()
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := w.rng.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			w.counts[c.name]++
			c.take()
			return
		}
	}
}

// oneOf draws one of the calls, which are in order of arrival. A prompt world takes the
// first once it has waited for an eighth of a lease.
func (w *world) oneOf(calls []*call) *call {
	if w.profile.prompt && time.Since(calls[0].at) > w.pace.lease()/8 {
		return calls[0]
	}
	return pick(w.rng, calls)
}

func (w *world) nextStep() {
	w.mu.Lock()
	w.step++
	w.mu.Unlock()
	w.noteReadable()
	w.align()
	w.settle()    // timers that end at this instant come before the step,
	w.gate.look() // and so do the calls that they cause
}

// align sleeps until the next tick.
func (w *world) align() {
	since := time.Since(w.began)
	d := since.Truncate(tick) + tick - since
	w.delays.meant(d)
	w.await(d, nil)
}

// await lets time pass, at most d, until a call arrives, if arrived is not nil. Contexts that
// end during it are reported at once.
func (w *world) await(d time.Duration, arrived <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-w.gate.ended:
			w.reportEnded()
		case <-arrived:
			return
		case <-timer.C:
			return
		}
	}
}

// pass lets time pass until something happens, at most for the drawn duration.
func (w *world) pass() {
	longest := []time.Duration{10 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second}[w.rng.IntN(4)]
	w.idle(w.pace.of(1 + time.Duration(w.rng.Int64N(int64(longest)))))
}

// idle lets time pass, at most longest, until a call arrives, becomes choosable, or a
// process thaws.
func (w *world) idle(longest time.Duration) {
	began := time.Now()
	until := began.Add(longest)
	sooner := func(t time.Time) {
		if t.After(time.Now()) && t.Before(until) {
			until = t
		}
	}
	sooner(w.gate.next(time.Now()))
	for _, n := range w.nodes {
		if n.life.frozen {
			sooner(n.life.until)
		}
	}
	w.await(time.Until(until), w.gate.arrived)
	w.delays.meant(min(time.Since(began), until.Sub(began)))
}

// somePage draws a page; pinned pages are more likely.
func (w *world) somePage() *page {
	p := pick(w.rng, w.pages)
	for _, other := range w.pages {
		if g := other.current(); g != nil && g.pinned > trueNow() && w.rng.IntN(2) == 0 {
			return other
		}
	}
	return p
}

func pick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }
