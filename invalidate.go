package isr

import (
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A read of the store that began before this node learned of a rollback may have seen the
// previous page, and must not put it into memory, however late it returns. Only searches
// put pages into memory, and a search runs in a flight, so a reload is recorded in the
// current flights of its page. Nothing needs to be recorded for other pages: the cost of
// a burst of reloads is bounded by the number of flights.
//
// All moments are by this process's monotonic clock.

// A floor is a moment: no page that was read before it is served. There is none until it
// is raised for the first time.
type floor struct {
	at atomic.Pointer[time.Time]
}

// raise drops everything that was read before now.
func (f *floor) raise(now time.Time) { f.at.Store(&now) }

// above reports whether what was read at readAt must not be served. It is on the hit
// path: it takes no lock.
func (f *floor) above(readAt time.Time) bool {
	at := f.at.Load()
	return at != nil && readAt.Before(*at)
}

// crossed reports whether the floor was raised during a read, which may have seen the
// state before or after.
func (f *floor) crossed(read reading) bool { return read.contains(f.at.Load()) }

// overtake records a reload in the flights of a page, and prevents further requests from
// joining them. They go on for the requests that have joined.
func (fs *flights) overtake(k store.Key, now time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.reloadedAt.Store(&now)
	}
	delete(fs.byKey, k)
}

// overtaken reports whether the page was reloaded after a read of it began: what was read
// must not be kept.
func (f *flight) overtaken(readAt time.Time) bool {
	at := f.reloadedAt.Load()
	return at != nil && readAt.Before(*at)
}

// crossed reports whether the page was reloaded during a read.
func (f *flight) crossed(read reading) bool { return read.contains(f.reloadedAt.Load()) }

// reload drops all that this process keeps of pages that were rolled back, pinned,
// unpinned or withdrawn. Later requests get what the store has.
func (c *Cache) reload(keys ...store.Key) {
	for _, k := range keys {
		// First no older reading can be added; then existing ones are removed.
		c.flights.overtake(k, time.Now())
		c.unstored.overtake(k, time.Now())
		c.memory.drop(k)
		c.unpublished.forget(k)
		c.negative.forget(k)
	}
}
