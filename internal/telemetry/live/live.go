package live

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/store"
)

// maxShards bounds the shards of the counters of requests, which have 28 KiB each.
const maxShards = 16

// A Monitor keeps what a server did in the last hour. It is safe for concurrent use.
type Monitor struct {
	requests requests
	work     work

	requested *top // sums are requests
	rendered  *top // sums are the time of renders, in ns

	troubles   troubles
	happenings happenings
}

var (
	_ telemetry.Sink = (*Monitor)(nil)
	_ isr.Observer   = (*Monitor)(nil)
)

// New returns an empty monitor.
func New() *Monitor {
	now := time.Now()
	return &Monitor{
		requests:  requests{shards: make([]shard, min(runtime.GOMAXPROCS(0), maxShards))},
		requested: newTop(now), rendered: newTop(now),
		troubles: troubles{failing: make(map[store.Key]*trouble)},
	}
}

// How many requests of a second and shard are all entered in the list of the most requested
// pages, and which part of the others.
const (
	enteredAll = 128
	enteredOf  = 16
)

// Done implements [telemetry.Sink].
func (m *Monitor) Done(e *telemetry.Exchange) {
	now := e.Start.Add(e.Duration)
	o, reason := classify(e)
	c := m.requests.cell(now.Unix())
	n := c.counts[o].Add(1)
	c.bytes.Add(e.Bytes)
	if o == hit || o == stale {
		c.latency[bucketOf(e.Duration)].Add(1)
		for longest := c.slowest.Load(); int64(e.Duration) > longest; longest = c.slowest.Load() {
			if c.slowest.CompareAndSwap(longest, int64(e.Duration)) {
				break
			}
		}
	}
	if reason != "" {
		m.work.do(now, func(p *period) { count(p.reasons, reason, 1) })
	}
	if e.Key == (store.Key{}) {
		return
	}
	weight := int64(1)
	if n > enteredAll {
		if n%enteredOf != 0 {
			return
		}
		weight = enteredOf
	}
	if m.requested.mu.TryLock() { // a request that would wait is not entered
		m.requested.addLocked(now, e.Key, e.Route, weight)
		m.requested.mu.Unlock()
	}
}

// Begin implements [isr.Observer].
func (m *Monitor) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	began := time.Now()
	switch op.Kind {
	case isr.OperationRender:
		return ctx, func(res isr.Result) { m.renderEnds(op, res, began) }
	case isr.OperationTable, isr.OperationBodies:
		return ctx, func(res isr.Result) { m.callEnds(res, began) }
	}
	return ctx, func(isr.Result) {}
}

// Join implements [isr.Observer].
func (*Monitor) Join(_, _ context.Context) {}

func (m *Monitor) callEnds(res isr.Result, began time.Time) {
	now := time.Now()
	m.work.do(now, func(p *period) {
		p.calls.add(now.Sub(began))
		if res.Outcome == "error" {
			p.errors++
		}
	})
}

func (m *Monitor) renderEnds(op isr.Operation, res isr.Result, began time.Time) {
	now := time.Now()
	took := now.Sub(began)
	m.work.do(now, func(p *period) {
		p.render.add(took)
		count(p.renders, res.Outcome, 1)
	})
	if op.Key == (store.Key{}) {
		return
	}
	m.rendered.mu.Lock()
	e := m.rendered.addLocked(now, op.Key, op.Route, int64(took))
	e.renders++
	e.longest = max(e.longest, took)
	e.last = took
	m.rendered.mu.Unlock()
	for _, h := range m.troubles.renderEnds(op, res, now) {
		m.happenings.add(h)
	}
}

// Note implements [isr.Observer].
func (m *Monitor) Note(e isr.Event) {
	now := time.Now()
	switch e.Kind {
	case isr.EventPurge:
		m.work.do(now, func(p *period) { p.purges++ })
		m.happenings.add(Happening{At: now, Kind: "purge", Reason: e.Reason, Text: "a " + e.Reason + " purge by this server"})
	case isr.EventApplied:
		m.work.do(now, func(p *period) { p.applied++ })
		m.happenings.add(Happening{At: now, Kind: "applied", Reason: e.Reason, Text: "a change by another server took effect"})
	}
}

// Happen adds a happening of a kind that the monitor does not find itself.
func (m *Monitor) Happen(h Happening) { m.happenings.add(h) }

// Happenings returns those after an id, oldest first: at most the latest 256.
func (m *Monitor) Happenings(after int64) []Happening { return m.happenings.after(after) }

// Latest returns the id of the latest happening, 0 if there is none.
func (m *Monitor) Latest() int64 {
	m.happenings.mu.Lock()
	defer m.happenings.mu.Unlock()
	return m.happenings.last
}

// maxHappenings bounds the happenings that are kept.
const maxHappenings = 256

// A Happening is something of interest to people who watch a server.
type Happening struct {
	ID     int64     `json:"id" doc:"Counts happenings since the server started, from 1."`
	At     time.Time `json:"at" doc:"When it happened."`
	Kind   string    `json:"kind" doc:"purge, applied, quarantine, failing, recovered, reload or change."`
	Key    string    `json:"key,omitempty" doc:"Key of the page."`
	Tenant string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Route  string    `json:"route,omitempty" doc:"Name of the route of the page."`
	Reason string    `json:"reason,omitempty" doc:"A word that says more."`
	Text   string    `json:"text" doc:"One line for people."`
}

// happenings are the latest happenings, in a ring.
type happenings struct {
	mu   sync.Mutex
	last int64                    // guarded by mu
	ring [maxHappenings]Happening // guarded by mu
}

func (h *happenings) add(one Happening) {
	one.At = one.At.UTC()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	one.ID = h.last
	h.ring[h.last%maxHappenings] = one
}

func (h *happenings) after(id int64) []Happening {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []Happening
	for i := max(id, h.last-maxHappenings, 0) + 1; i <= h.last; i++ {
		found = append(found, h.ring[i%maxHappenings])
	}
	return found
}
