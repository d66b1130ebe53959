package live

import (
	"sync"
	"time"
)

// maxReasons bounds the words that are counted in one minute. Others count as "other".
const maxReasons = 64

// A period is the work of a second or a minute that is not counted by cells.
type period struct {
	reasons map[string]int64 // of requests
	renders map[string]int64 // by outcome
	render  histogram
	calls   histogram // of the stores
	errors  int64     // of the stores
	purges  int64     // by this process
	applied int64     // changes by others
}

func newPeriod() *period {
	return &period{reasons: make(map[string]int64), renders: make(map[string]int64)}
}

// clear empties the period for another time.
func (p *period) clear() {
	reasons, renders := p.reasons, p.renders
	clear(reasons)
	clear(renders)
	*p = period{reasons: reasons, renders: renders}
}

func (p *period) merge(o *period) {
	for word, n := range o.reasons {
		count(p.reasons, word, n)
	}
	for word, n := range o.renders {
		count(p.renders, word, n)
	}
	p.render.merge(&o.render)
	p.calls.merge(&o.calls)
	p.errors += o.errors
	p.purges += o.purges
	p.applied += o.applied
}

// count adds to the count of a word.
func count(counts map[string]int64, word string, n int64) {
	if _, known := counts[word]; !known && len(counts) >= maxReasons {
		word = "other"
	}
	counts[word] += n
}

// work counts what is not on the way of a fresh hit.
type work struct {
	mu      sync.Mutex
	minutes [minutes]stamped // guarded by mu
	seconds [seconds]stamped // guarded by mu
}

// A stamped is a period with its Unix time, in minutes or seconds.
type stamped struct {
	at     int64
	period *period
}

// do calls change for the minute and for the second of a time.
func (w *work) do(now time.Time, change func(*period)) {
	second := now.Unix()
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.minutes[second/60%minutes].turn(second / 60); p != nil {
		change(p)
	}
	if p := w.seconds[second%seconds].turn(second); p != nil {
		change(p)
	}
}

// turn makes the period count a time, and returns it; nil if it counts a later one.
func (s *stamped) turn(at int64) *period {
	switch {
	case s.period == nil:
		s.at, s.period = at, newPeriod()
	case s.at < at:
		s.at = at
		s.period.clear()
	case s.at > at:
		return nil
	}
	return s.period
}

// each calls minute with the minutes of the hour before a time, by when they began, and second
// with the seconds of its last minute.
func (w *work) each(now int64, minute func(at int64, p *period), second func(p *period)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.minutes {
		if s.period != nil && s.at > now/60-60 && s.at <= now/60 {
			minute(s.at*60, s.period)
		}
	}
	for _, s := range w.seconds {
		if s.period != nil && s.at > now-60 && s.at <= now {
			second(s.period)
		}
	}
}
