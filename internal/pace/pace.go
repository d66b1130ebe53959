// Package pace keeps work in the background, such as scans of the table, from delaying requests.
//
// The problem: such work takes a processor for seconds. Go's scheduler preempts a goroutine only
// after 10 ms, and looks for requests that have arrived on the network when a processor has
// nothing else to do, or every 10 ms. A page that is served in 0.1 ms takes 10 ms then.
//
// The model: all background work of a process calls [Pacer.Step] between pieces of work of some
// microseconds. While requests are served, it works for [Slice] and then pauses for [Pause], all
// of it at the same time, which leaves the processors to requests half of the time, and lets the
// scheduler look for them. Without requests it pauses after [IdleSlice] only.
package pace

import "time"

const (
	// Slice is how long background work runs between two pauses while requests are served.
	Slice = time.Millisecond
	// IdleSlice is the same while there are no requests. The first request after a while is
	// delayed by so much at most.
	IdleSlice = 10 * time.Millisecond
	// Pause is how long a pause takes. Linux wakes an idle process no sooner than after a
	// millisecond.
	Pause = time.Millisecond
	// busyFor is how long after a request another one is expected.
	busyFor = time.Second
)

// A Pacer paces the background work of a process. It is safe for concurrent use. A nil Pacer
// never pauses.
type Pacer struct {
	requests func() int64

	turn  chan struct{} // holds one element while Step uses the rest, and pauses
	began time.Time     // when the last pause ended
	seen  int64         // requests by then
	busy  time.Time     // until when requests are expected
}

// New returns a Pacer. requests returns how many requests have begun so far; it must be fast, and
// safe for concurrent use.
func New(requests func() int64) *Pacer {
	return &Pacer{requests: requests, turn: make(chan struct{}, 1)}
}

// Step pauses if the slice has passed; else it returns at once.
func (p *Pacer) Step() {
	if p == nil {
		return
	}
	p.turn <- struct{}{} // during a pause the others wait here
	defer func() { <-p.turn }()
	now := time.Now()
	if now.Sub(p.began) < Slice {
		return
	}
	if n := p.requests(); n != p.seen {
		p.seen, p.busy = n, now.Add(busyFor)
	}
	if !now.Before(p.busy) && now.Sub(p.began) < IdleSlice {
		return
	}
	time.Sleep(Pause)
	p.began = time.Now()
}
