package isr

import (
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A read of the store that began before this node heard of a rollback may have
// seen the page of before, and must not put it into memory afterwards, however
// late it arrives. Only searches put what they read into memory, and a search runs
// in a flight, so a reload is recorded in the flights of its page that are under
// way and nowhere else. There is nothing to remember for other pages, and nothing
// to forget when there are many: what a burst of reloads costs is bounded by the
// flights under way.
//
// All moments are those of this process's monotonic clock.

// A floor is the moment before which nothing that was read is served, of whatever
// page. There is none before it is raised for the first time.
type floor struct {
	at atomic.Pointer[time.Time]
}

// raise has everything read again that was read before now.
func (f *floor) raise(now time.Time) { f.at.Store(&now) }

// above says that what was read then is not to be served. It is on the hit path:
// it takes no lock.
func (f *floor) above(readAt time.Time) bool {
	at := f.at.Load()
	return at != nil && readAt.Before(*at)
}

// crossed says that the floor was raised during a read: what was read may be of
// before or of after.
func (f *floor) crossed(read reading) bool { return read.contains(f.at.Load()) }

// overtake records in the flights of a page that it is reloaded now, and lets
// nobody else join them. They go on for those who have joined.
func (fs *flights) overtake(k store.Key, now time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.reloadedAt.Store(&now)
	}
	delete(fs.byKey, k)
}

// overtaken says that the flight's page was reloaded after a read of it began:
// what was read is not to be kept.
func (f *flight) overtaken(readAt time.Time) bool {
	at := f.reloadedAt.Load()
	return at != nil && readAt.Before(*at)
}

// crossed says that the flight's page was reloaded during a read.
func (f *flight) crossed(read reading) bool { return read.contains(f.reloadedAt.Load()) }

// reload drops what this process has of pages that were rolled back, pinned or
// unpinned. Later requests get what the store has.
func (c *Cache) reload(keys ...store.Key) {
	for _, k := range keys {
		// From here on no older reading gets in; then those that are in go.
		c.flights.overtake(k, time.Now())
		c.unstored.overtake(k, time.Now())
		c.memory.drop(k)
		c.unpublished.forget(k)
		c.negative.forget(k)
	}
}
