package isr

import (
	"time"

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
		Flights:         c.flights.Len() + c.unpublished.Len(),
		LeasesHeld:      len(c.engine.Held()),
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
	leases := c.engine.Held()
	all := make([]Held, min(len(leases), maxHolding))
	for i := range all {
		all[i] = Held(leases[i])
	}
	return all
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
