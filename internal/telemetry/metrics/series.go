package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A table resolves label values to series, of which it makes at most limit, and a quarter more
// that are coarser. No traffic can make more. It is copied when a series is added: a look-up is
// a load and a map access, and allocates nothing.
type table[K comparable, V any] struct {
	limit   int
	resolve func(K) V
	coarser func(K) K // the labels of what exceeds the limit: Other for the route, for example
	rest    K         // the labels of what exceeds even that

	mu      sync.Mutex // held while a series is added
	current atomic.Pointer[map[K]V]
}

func newTable[K comparable, V any](limit int, resolve func(K) V, coarser func(K) K, rest K) *table[K, V] {
	t := &table[K, V]{limit: limit, resolve: resolve, coarser: coarser, rest: rest}
	t.current.Store(&map[K]V{})
	return t
}

// get returns the series of label values.
func (t *table[K, V]) get(k K) V {
	all := *t.current.Load()
	if v, ok := all[k]; ok {
		return v
	}
	if len(all) >= t.limit {
		if v, ok := all[t.coarser(k)]; ok {
			return v
		}
	}
	if len(all) >= t.most() {
		if v, ok := all[t.rest]; ok {
			return v
		}
	}
	return t.add(k)
}

// most is the number of series from which on all others are the rest.
func (t *table[K, V]) most() int { return t.limit + t.limit/4 }

func (t *table[K, V]) add(k K) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.current.Load()
	if len(old) >= t.limit {
		k = t.coarser(k)
	}
	if _, known := old[k]; !known && len(old) >= t.most() {
		k = t.rest
	}
	if v, ok := old[k]; ok {
		return v
	}
	next := maps.Clone(old)
	next[k] = t.resolve(k)
	t.current.Store(&next)
	return next[k]
}
