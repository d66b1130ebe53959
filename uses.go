package isr

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// A useCounter estimates how often keys were asked for lately, in a fixed size
// whatever is asked for: two count-min sketches, of which the older is forgotten. It
// may count too many, never too few within its window. It is safe for concurrent use.
//
//	add ──► four counters of the current sketch, picked by the hash of the key
//	count = least of the four sums of both sketches
type useCounter struct {
	seed maphash.Seed

	mu       sync.Mutex
	current  *useSketch // guarded by mu
	previous *useSketch // guarded by mu
	begun    time.Time  // guarded by mu: when current was
	added    int        // guarded by mu: to current
}

const (
	sketchRows  = 4
	sketchWidth = 512 << 10
	// useWindow is how long uses are counted, at least; up to twice that.
	useWindow = 30 * time.Minute
	// maxAdded ends a window early: strangers who invent keys have others forgotten
	// sooner, rather than counted too often (about one key in forty).
	maxAdded = 128 << 10
	// maxMinUses bounds Config.MinUses: what a counter can hold.
	maxMinUses = 100
)

type useSketch [sketchRows][sketchWidth]uint8

func newUseCounter() *useCounter {
	return &useCounter{seed: maphash.MakeSeed(), current: new(useSketch), previous: new(useSketch), begun: time.Now()}
}

// add counts a use, and returns how many there were with it.
func (u *useCounter) add(k store.Key) int {
	at := u.places(k)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turnLocked()
	u.added++
	least := u.countLocked(at)
	for row, i := range at {
		// Only the least counters grow: the others count other keys as well.
		if int(u.current[row][i])+int(u.previous[row][i]) == least && u.current[row][i] < maxMinUses {
			u.current[row][i]++
		}
	}
	return u.countLocked(at)
}

// count returns how many uses there were lately.
func (u *useCounter) count(k store.Key) int {
	at := u.places(k)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turnLocked()
	return u.countLocked(at)
}

func (u *useCounter) places(k store.Key) (at [sketchRows]int) {
	h := maphash.Comparable(u.seed, k)
	low, high := uint32(h), uint32(h>>32)|1
	for row := range at {
		at[row] = int((low + uint32(row)*high) % sketchWidth)
	}
	return at
}

func (u *useCounter) countLocked(at [sketchRows]int) int {
	least := 2 * maxMinUses
	for row, i := range at {
		least = min(least, int(u.current[row][i])+int(u.previous[row][i]))
	}
	return least
}

// turnLocked begins a new sketch if the current one is full, or old.
func (u *useCounter) turnLocked() {
	age := time.Since(u.begun)
	if age < useWindow && u.added < maxAdded {
		return
	}
	u.current, u.previous = u.previous, u.current
	*u.current = useSketch{}
	if age >= 2*useWindow {
		*u.previous = useSketch{}
	}
	u.begun, u.added = time.Now(), 0
}

// notWorthStoring says why a page that is not stored is not to be: it was not asked for
// often enough, or there is no room. Empty if it is to be stored.
func (s *search) notWorthStoring(rec store.Record) (detail string) {
	switch {
	case rec.Entry != nil || s.force:
		return ""
	case s.c.uses != nil && s.c.uses.count(s.key) < s.c.cfg.MinUses:
		return detailMinUses
	case s.c.full():
		return detailNoRoom
	}
	return ""
}

// full says that the stores have no room for another page.
func (c *Cache) full() bool { return c.cfg.Full != nil && c.cfg.Full() }
