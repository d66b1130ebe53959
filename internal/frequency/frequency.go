// Package frequency estimates how often keys were used lately, in a fixed amount of
// memory, however many keys there are.
package frequency

import (
	"hash/maphash"
	"sync"
	"time"
)

// Max is the largest count that is distinguished.
const Max = 100

const (
	rows  = 4
	width = 512 << 10
	// maxAdded ends a window early. Many invented keys make others be forgotten
	// sooner, rather than counted too often (about one key in forty).
	maxAdded = 128 << 10
)

// A Counter is two count-min sketches with conservative update, 4 MiB in all: the
// current one, and the one of the window before. It may count too many uses of a key,
// never too few within the window. All methods are safe for concurrent use.
//
//	Add   = increment the smallest of four counters, which the hash of the key selects
//	Count = the smallest of the four sums of both sketches
type Counter[K comparable] struct {
	seed   maphash.Seed
	window time.Duration

	mu       sync.Mutex
	current  *sketch   // guarded by mu
	previous *sketch   // guarded by mu
	begun    time.Time // guarded by mu: when the window of current began
	added    int       // guarded by mu: uses in current
}

type sketch [rows][width]uint8

// New returns a Counter that remembers a use for at least window, and for at most twice
// that.
func New[K comparable](window time.Duration) *Counter[K] {
	return &Counter[K]{seed: maphash.MakeSeed(), window: window, current: new(sketch), previous: new(sketch), begun: time.Now()}
}

// Add counts a use of k, and returns the new count.
func (c *Counter[K]) Add(k K) int {
	at := c.places(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotateLocked()
	c.added++
	least := c.countLocked(at)
	for row, i := range at {
		// Larger counters count other keys as well: only the smallest are incremented.
		if int(c.current[row][i])+int(c.previous[row][i]) == least && c.current[row][i] < Max {
			c.current[row][i]++
		}
	}
	return c.countLocked(at)
}

// Count returns how many uses of k were counted lately.
func (c *Counter[K]) Count(k K) int {
	at := c.places(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotateLocked()
	return c.countLocked(at)
}

func (c *Counter[K]) places(k K) (at [rows]int) {
	h := maphash.Comparable(c.seed, k)
	low, high := uint32(h), uint32(h>>32)|1
	for row := range at {
		at[row] = int((low + uint32(row)*high) % width)
	}
	return at
}

func (c *Counter[K]) countLocked(at [rows]int) int {
	least := 2 * Max
	for row, i := range at {
		least = min(least, int(c.current[row][i])+int(c.previous[row][i]))
	}
	return least
}

// rotateLocked starts a new window if the current one is over, or full.
func (c *Counter[K]) rotateLocked() {
	age := time.Since(c.begun)
	if age < c.window && c.added < maxAdded {
		return
	}
	c.current, c.previous = c.previous, c.current
	*c.current = sketch{}
	if age >= 2*c.window {
		*c.previous = sketch{}
	}
	c.begun, c.added = time.Now(), 0
}
