package isr

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/store"
)

// Stats is the state of a cache at one moment. Its parts are read one after the other.
type Stats struct {
	// Memory is the tier of pages in this process.
	Memory MemoryStats
	// NegativeEntries are the entries of the negative cache, and Unpublished the pages in memory
	// that could not be stored. Both are approximate.
	NegativeEntries, Unpublished int
	// PurgeMarks are the purges of tags, prefixes, tenants and the site that pages are judged by.
	PurgeMarks int
	// Renders are the calls of renderers in progress, and Queued the pages that wait for a
	// turn at their origin.
	Renders, Queued int
	// Flights are the pages that are being looked for, or rendered.
	Flights int
	// LeasesHeld are the leases that this process holds.
	LeasesHeld int
	// PollLag is how long ago the last successful poll of the log began, or the cache was
	// made; zero if it does not read the log.
	PollLag time.Duration
	// StoresDown are the stores whose circuit breaker is open: "table", "bodies".
	StoresDown []string
}

// MemoryStats describe the pages in memory.
type MemoryStats struct {
	Bytes   int64 // what they weigh, with what is kept of evicted pages
	Limit   int64 // what they may weigh; 0: none are kept
	Entries int   // approximate; pages that were dropped count until they are replaced or evicted
}

// Stats returns the state of the cache at the moment. It is safe for concurrent use.
func (c *Cache) Stats() Stats {
	s := Stats{
		NegativeEntries: c.node.Negative.Len(),
		Unpublished:     c.node.Unpublished.Len(),
		PurgeMarks:      c.node.Marks.Len(),
		Renders:         int(c.engine.Rendering.Load()),
		Queued:          int(c.engine.Queued.Load()),
		Flights:         c.flights.Len() + c.unstored.Len(),
		LeasesHeld:      c.held.count(),
		StoresDown:      c.StoresDown(),
	}
	s.Memory.Bytes, s.Memory.Limit, s.Memory.Entries = c.node.Usage()
	if c.cfg.Poll >= 0 {
		s.PollLag = time.Since(c.created)
		if age, ok := c.follower.Age(c.now()); ok {
			s.PollLag = age
		}
	}
	return s
}

// LastUses returns when the pages in memory were last served from there, by partition
// key, rounded up to whole seconds. The stores do not know that (see [gc.EvictOptions]).
func (c *Cache) LastUses() map[string]time.Time {
	uses := make(map[string]time.Time)
	for k, at := range c.node.LastUses() {
		uses[c.cfg.Partition(k)] = at
	}
	return uses
}

// A Held is a lease that this process holds.
type Held struct {
	Key   store.Key
	Route string    // its label; empty while a quarantined generation is being accepted
	Since time.Time // when it was acquired
}

// maxHolding bounds what Holding returns.
const maxHolding = 1000

// Holding returns the leases that this process holds, the oldest first, at most a thousand. It
// is safe for concurrent use.
func (c *Cache) Holding() []Held {
	all := c.held.all()
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Key.Tenant, b.Key.Tenant), strings.Compare(a.Key.Text, b.Key.Text))
	})
	return all[:min(len(all), maxHolding)]
}

// hold records a lease that this process has acquired, and returns the function that records
// its end. before is the lock that it has replaced, nil if none is known.
func (c *Cache) hold(k store.Key, route string, before *store.Lock) (release func(lost bool)) {
	acquired := "acquired"
	if fill.IsLease(before) {
		acquired = "taken-over"
	}
	c.note(Event{Kind: EventLease, Reason: acquired})
	h := &Held{Key: k, Route: route, Since: c.now()}
	c.held.add(h)
	return func(lost bool) {
		c.held.remove(h)
		ended := "released"
		if lost {
			ended = "lost"
		}
		c.note(Event{Kind: EventLease, Reason: ended})
	}
}

// heldLeases are the leases that a process holds. The zero value is empty. All methods are safe
// for concurrent use.
type heldLeases struct {
	mu     sync.Mutex
	leases map[*Held]struct{} // guarded by mu; the elements do not change
}

func (l *heldLeases) add(h *Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases == nil {
		l.leases = make(map[*Held]struct{})
	}
	l.leases[h] = struct{}{}
}

func (l *heldLeases) remove(h *Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, h)
}

func (l *heldLeases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

func (l *heldLeases) all() []Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Held, 0, len(l.leases))
	for h := range l.leases {
		all = append(all, *h)
	}
	return all
}

// summaryPause is for how long the log sums up the pages that were stored.
const summaryPause = time.Minute

// A renderLog writes a line at level debug for each page that is stored, and one at level info for
// all of a minute: a line for each would be most of the log of a busy site. It is safe for
// concurrent use.
type renderLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	timer   *time.Timer // guarded by mu: writes the summary; nil if nothing was stored since the last one
	summary renderSummary
}

// A renderSummary sums up the pages that were stored since a moment.
type renderSummary struct {
	rendered, validated int
	bytes               int64
	took                time.Duration // all renders together
	slowest             time.Duration
	slowestKey          string
}

// stored notes a page that was stored. validated: its origin answered that the stored copy is valid.
func (l *renderLog) stored(k store.Key, e *store.Entry, validated bool, took time.Duration) {
	did, key := "rendered", k.String()
	if validated {
		did = "validated"
	}
	l.logger.Debug(did, "key", key, "status", e.Status, "bytes", e.Length, "took", took.Round(time.Millisecond), "fresh", e.Revalidate)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.summary
	if validated {
		s.validated++
	} else {
		s.rendered++
		s.bytes += e.Length
	}
	s.took += took
	if took >= s.slowest {
		s.slowest, s.slowestKey = took, key
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(summaryPause, l.write)
	}
}

// write writes the summary, unless nothing was stored since the last one.
func (l *renderLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		return
	}
	l.timer.Stop()
	l.timer = nil
	s := l.summary
	l.summary = renderSummary{}
	mean := s.took / time.Duration(s.rendered+s.validated)
	l.logger.Info("rendered pages", "rendered", s.rendered, "validated", s.validated, "bytes", s.bytes,
		"mean", mean.Round(time.Millisecond), "slowest", s.slowest.Round(time.Millisecond), "slowest_key", s.slowestKey)
}

// FailingKeys returns the keys of pages whose last render in this process failed, by
// partition key. Rows of pages without content do not have the key.
func (c *Cache) FailingKeys() map[string]store.Key {
	keys := make(map[string]store.Key)
	for k := range c.node.Negative.Failing() {
		keys[c.cfg.Partition(k)] = k
	}
	return keys
}

// SetMemory changes [Config.Memory] while the cache is used, to more than zero. Pages that no longer fit are evicted. A cache that
// was made to keep no pages stays so, and Config.Buffers stays as it is. It is safe for concurrent use.
func (c *Cache) SetMemory(bytes int64) { c.node.Resize(bytes) }
