package nodecache

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// Reads of a page may see a change in part (see [store.Reader]): a node that has read of a
// purge or a rollback in the log might put the page of before into memory again, and serve it
// until it expires. So pages that have changed lately are read in a transaction.

const (
	// changedLately is for how long. DynamoDB commits the rows of a change milliseconds
	// apart, and states no bound.
	changedLately = 10 * time.Second
	// maxChangedPages bounds the pages that are remembered. If there are more, all pages are
	// read in transactions, which cost more.
	maxChangedPages = 1 << 14
)

// changedPages are the pages that have changed lately. Its methods are safe for concurrent
// use.
type changedPages struct {
	mu   sync.Mutex
	seed maphash.Seed         // guarded by mu
	at   map[uint64]time.Time // guarded by mu: by the hash of the key
	all  time.Time            // guarded by mu: when any page may have changed last
}

// note records that a page has changed, before it is read again.
func (c *changedPages) note(k store.Key) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.seed, c.at = maphash.MakeSeed(), make(map[uint64]time.Time)
	}
	if len(c.at) >= maxChangedPages {
		maps.DeleteFunc(c.at, func(_ uint64, at time.Time) bool { return now.Sub(at) >= changedLately })
	}
	if len(c.at) >= maxChangedPages {
		clear(c.at)
		c.all = now
	}
	c.at[maphash.Comparable(c.seed, k)] = now
}

// noteAll records that any page may have changed.
func (c *changedPages) noteAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = time.Now()
}

// lately reports whether a page may be read in part.
func (c *changedPages) lately(k store.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.all.IsZero() && time.Since(c.all) < changedLately {
		return true
	}
	if len(c.at) == 0 {
		return false
	}
	at, known := c.at[maphash.Comparable(c.seed, k)]
	return known && time.Since(at) < changedLately
}
