package isr

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// maxReloads bounds how many reloaded pages are remembered.
const maxReloads = 4 << 10

// reloads tells the readings of the store that may be kept from those that were
// overtaken: a read that began before this node heard of a rollback may have seen
// the page of before, and must not put it into memory afterwards, however late it
// arrives. It compares moments of this process's monotonic clock alone.
type reloads struct {
	// floor is the moment before which nothing that was read is of use, of
	// whatever page. Nil: nothing is, whenever it was read.
	floor atomic.Pointer[time.Time]

	mu   sync.Mutex
	last map[Key]time.Time // guarded by mu: when a page was reloaded last
}

// everything overtakes all readings that began before now.
func (r *reloads) everything(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.everythingLocked(now)
}

func (r *reloads) everythingLocked(now time.Time) {
	r.floor.Store(&now)
	r.last = make(map[Key]time.Time)
}

// page overtakes the readings of one page that began before now. It is
// remembered for as long as a read may take to arrive (see allows); where that are
// too many, all pages are read anew.
func (r *reloads) page(k Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.floor.Load() == nil {
		return // everything will overtake them, before any is kept
	}
	if len(r.last) >= maxReloads {
		maps.DeleteFunc(r.last, func(_ Key, at time.Time) bool { return now.Sub(at) > LogLife })
	}
	if len(r.last) >= maxReloads {
		r.everythingLocked(now)
		return
	}
	r.last[k] = now
}

// allows says whether a reading that began at readAt may be kept now. None is
// that took longer than reloads are remembered.
func (r *reloads) allows(k Key, readAt time.Time) bool {
	if r.tooOld(readAt) || time.Since(readAt) > LogLife {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !readAt.Before(r.last[k])
}

// crossed says that the page was reloaded while it was being read: what was read may
// be of before or of after.
func (r *reloads) crossed(k Key, read reading) bool {
	during := func(t time.Time) bool { return read.began.Before(t) && t.Before(read.ended) }
	if floor := r.floor.Load(); floor != nil && during(*floor) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return during(r.last[k])
}

// tooOld says that nothing that was read then is of use any more. It is on the
// hit path: it takes no lock.
func (r *reloads) tooOld(readAt time.Time) bool {
	floor := r.floor.Load()
	return floor == nil || readAt.Before(*floor)
}

// reload drops what this process has of pages that were rolled back, pinned or
// unpinned. Who asks for one from now on gets what the store has.
func (c *Cache) reload(keys ...Key) {
	for _, k := range keys {
		// From here on no older reading gets in; then those that are in go.
		c.reloads.page(k, time.Now())
		c.flights.retire(k)
		c.memory.drop(k)
		c.shortcuts.forget(k)
	}
}
