package live

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/telemetry"
)

// An outcome is what the cache did for a request.
type outcome int

const (
	hit    outcome = iota // a page in the cache that is fresh
	stale                 // one that is not
	miss                  // the request waited for a render
	bypass                // the cache was not used
	failed                // the status is 5xx, or the response broke off
	outcomes
)

// classify returns the outcome of a request, and the reason if it is not a plain hit, by
// Cache-Status.
func classify(e *telemetry.Exchange) (o outcome, reason string) {
	reason = e.Detail
	if reason == "" {
		reason = e.Forward
	}
	switch {
	case e.Status >= http.StatusInternalServerError, e.Aborted:
		if e.Aborted {
			return failed, "aborted"
		}
		if reason == "" {
			reason = "error"
		}
		return failed, reason
	case e.Hit:
		switch e.Detail {
		case "", "negative", "pinned", "unpublished":
			return hit, e.Detail
		}
		return stale, reason
	case e.Detail == "stale-if-error":
		return stale, reason
	case e.Forward == "miss", e.Forward == "stale":
		return miss, reason
	case reason == "":
		reason = "unrouted" // refused before the cache
	}
	return bypass, reason
}

// seconds is how many seconds are kept: a minute, and the current one.
const seconds = 64

// A cell counts the requests of one second, in one shard.
type cell struct {
	second  atomic.Int64 // Unix time
	counts  [outcomes]atomic.Int64
	bytes   atomic.Int64
	slowest atomic.Int64           // of hits, in ns
	latency [buckets]atomic.Uint32 // of hits
}

// A tally is what cells are summed into.
type tally struct {
	counts  [outcomes]int64
	bytes   int64
	latency histogram // the sum is made of the buckets' upper bounds
}

// addTo adds the cell to a tally.
func (c *cell) addTo(t *tally) {
	for i := range c.counts {
		t.counts[i] += c.counts[i].Load()
	}
	t.bytes += c.bytes.Load()
	for i := range c.latency {
		t.latency.counts[i] += int64(c.latency[i].Load())
	}
	t.latency.max = max(t.latency.max, time.Duration(c.slowest.Load()))
}

// clear empties the cell for another second.
func (c *cell) clear(second int64) {
	for i := range c.counts {
		c.counts[i].Store(0)
	}
	c.bytes.Store(0)
	c.slowest.Store(0)
	for i := range c.latency {
		c.latency[i].Store(0)
	}
	c.second.Store(second)
}

func (t *tally) merge(o *tally) {
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.bytes += o.bytes
	t.latency.merge(&o.latency)
}

// minutes is how many minutes are kept: an hour, and the current one.
const minutes = 61

// requests counts requests: requests of the latest seconds in cells, to which processors add
// without a lock, and before a cell is used for another second, it is added to its minute.
type requests struct {
	shards []shard

	mu      sync.Mutex
	minutes [minutes]struct { // guarded by mu
		minute int64 // Unix time in minutes
		tally  tally
	}
}

// A shard is a set of cells, so that processors rarely write to the same memory.
type shard struct {
	cells [seconds]cell
	_     [64]byte
}

// cell returns the cell of a shard for a second.
func (r *requests) cell(second int64) *cell {
	c := &r.shards[rand.IntN(len(r.shards))].cells[second%seconds]
	if c.second.Load() != second {
		r.turn(c, second)
	}
	return c
}

// turn makes a cell count another second. Requests that are counted during the turn may be counted
// for either.
func (r *requests) turn(c *cell, second int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := c.second.Load()
	if old >= second {
		return // another request has done it, or this one is late: it counts for the later second
	}
	if old > 0 {
		minute := old / 60
		m := &r.minutes[minute%minutes]
		if m.minute != minute && minute > m.minute {
			m.minute, m.tally = minute, tally{}
		}
		if m.minute == minute {
			c.addTo(&m.tally)
		}
	}
	c.clear(second)
}

// each calls minute with tallies of parts of the minutes of the hour before a time, and second
// with the counts of the seconds of its last minute, in no particular order. at is when the minute
// or the second began, in Unix time.
func (r *requests) each(now int64, minute func(at int64, t *tally), second func(at int64, t *tally)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.minutes {
		if m := &r.minutes[i]; m.minute > now/60-60 && m.minute <= now/60 {
			minute(m.minute*60, &m.tally)
		}
	}
	for i := range r.shards {
		for j := range r.shards[i].cells {
			c := &r.shards[i].cells[j]
			at := c.second.Load()
			if at/60 <= now/60-60 || at > now {
				continue
			}
			var t tally
			c.addTo(&t)
			minute(at/60*60, &t)
			if at > now-60 {
				second(at, &t)
			}
		}
	}
}
