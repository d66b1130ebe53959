package live

import (
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

const (
	// topSize is how many pages a top list counts.
	topSize = 1000
	// topWindow is how long a list counts before it is the previous one: what is read is
	// the counts of both, the last 30 to 60 minutes.
	topWindow = 30 * time.Minute
)

// A top list finds the pages with the largest sums of weights among any number of them, by the
// algorithm Space-Saving (Metwally, Agrawal and El Abbadi, 2005): a page that is not in the
// full list takes the place of the one with the smallest sum, and that sum too. A sum is too
// high by at most its err, and each page whose true sum exceeds the total divided by topSize
// is in the list.
type top struct {
	mu       sync.Mutex
	begun    time.Time // guarded by mu
	current  *summary  // guarded by mu
	previous *summary  // guarded by mu
}

// A summary is a list of one window: a heap with the smallest sum first.
type summary struct {
	byKey map[store.Key]*entry
	heap  []*entry
}

// An entry is a page of a top list.
type entry struct {
	key      store.Key
	route    string
	sum, err int64
	place    int // in the heap

	renders int64
	longest time.Duration
	last    time.Duration
}

func newTop(now time.Time) *top {
	return &top{begun: now, current: newSummary(), previous: newSummary()}
}

func newSummary() *summary { return &summary{byKey: make(map[store.Key]*entry, topSize)} }

// add adds to the sum of a page, and returns its entry. Callers must hold mu.
func (t *top) addLocked(now time.Time, k store.Key, route string, weight int64) *entry {
	if age := now.Sub(t.begun); age >= topWindow {
		t.previous, t.current, t.begun = t.current, newSummary(), now
		if age >= 2*topWindow {
			t.previous = newSummary()
		}
	}
	return t.current.add(k, route, weight)
}

func (s *summary) add(k store.Key, route string, weight int64) *entry {
	e, ok := s.byKey[k]
	if !ok {
		// The text may be a part of a larger one, which must not be kept for it.
		k = store.Key{Tenant: strings.Clone(k.Tenant), Text: strings.Clone(k.Text)}
		e = s.place(k)
	}
	e.route = route
	e.sum += weight
	s.down(e.place)
	return e
}

// place returns the entry of a page that has none.
func (s *summary) place(k store.Key) *entry {
	var e *entry
	if len(s.heap) < topSize {
		e = &entry{place: len(s.heap)}
		s.heap = append(s.heap, e)
		s.up(e.place)
	} else {
		e = s.heap[0]
		delete(s.byKey, e.key)
		*e = entry{sum: e.sum, err: e.sum}
	}
	e.key = k
	s.byKey[k] = e
	return e
}

func (s *summary) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].place, s.heap[j].place = i, j
}

func (s *summary) up(i int) {
	for i > 0 && s.heap[i].sum < s.heap[(i-1)/2].sum {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *summary) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if s.heap[child].sum < s.heap[least].sum {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

// entries returns copies of the entries of both windows, merged by page.
func (t *top) entries(now time.Time) map[store.Key]entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	merged := make(map[store.Key]entry, len(t.current.heap)+len(t.previous.heap))
	age := now.Sub(t.begun)
	if age < 2*topWindow {
		for _, e := range t.current.heap {
			merged[e.key] = *e
		}
	}
	if age < topWindow {
		for _, e := range t.previous.heap {
			merged[e.key] = merged[e.key].with(e)
		}
	}
	return merged
}

// entry returns what both windows know of a page.
func (t *top) entry(now time.Time, k store.Key) (found entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	age := now.Sub(t.begun)
	if e := t.current.byKey[k]; e != nil && age < 2*topWindow {
		found = *e
	}
	if e := t.previous.byKey[k]; e != nil && age < topWindow {
		found = found.with(e)
	}
	return found
}

// with returns the entry, which may be empty, with an older one of the same page.
func (e entry) with(older *entry) entry {
	if e.renders == 0 {
		e.last = older.last
	}
	if e.sum == 0 {
		e.route = older.route
	}
	e.key = older.key
	e.sum += older.sum
	e.err += older.err
	e.renders += older.renders
	e.longest = max(e.longest, older.longest)
	return e
}
