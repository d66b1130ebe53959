package gateway

import (
	"hash/maphash"
	"sync"
	"time"
)

// The size of a table of buckets: 131,072 of them, 2 MiB.
const (
	bucketSets = 1 << 14
	bucketWays = 8
)

// Buckets are token buckets by key, in a fixed size: a flood of keys makes the table no larger. A bucket is one
// time, at which it is full again (the generic cell rate algorithm), so that a full bucket needs no memory. In a set without
// room, the bucket is forgotten that is full again first: the one of which the least is lost. A client that has used its tokens
// up is forgotten last, and cannot free itself by requests with other keys; and a new key begins with a full bucket, so that a flood of
// keys locks no other client out. It is safe for concurrent use.
type buckets struct {
	seed  maphash.Seed
	epoch time.Time
	sets  []bucketSet
}

type bucketSet struct {
	mu   sync.Mutex
	keys [bucketWays]uint64 // guarded by mu
	// full are the times since the epoch at which the buckets are full; 0 for one that is free. Guarded by mu.
	full [bucketWays]time.Duration
}

func newBuckets() *buckets {
	// The epoch is in the past, so that no time is 0.
	return &buckets{seed: maphash.MakeSeed(), epoch: time.Now().Add(-time.Second), sets: make([]bucketSet, bucketSets)}
}

// take takes a token of a bucket of so many tokens, of which one comes back in each interval. If there is none, it takes none and
// returns how long it takes until there is one; else 0.
func (b *buckets) take(key uint64, interval time.Duration, burst int) (wait time.Duration) {
	s, now := &b.sets[key%bucketSets], time.Since(b.epoch)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.findLocked(key)
	full := now
	if found {
		full = max(now, s.full[at])
	}
	if wait := full - now - time.Duration(burst-1)*interval; wait > 0 {
		return wait
	}
	s.keys[at], s.full[at] = key, full+interval
	return 0
}

// giveBack gives a token back that take has taken.
func (b *buckets) giveBack(key uint64, interval time.Duration) {
	s := &b.sets[key%bucketSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := s.findLocked(key); found {
		s.full[at] -= interval
	}
}

// findLocked returns the place of a bucket; that of the bucket that is full first if the key has none.
func (s *bucketSet) findLocked(key uint64) (at int, found bool) {
	for i, k := range s.keys {
		switch {
		case k == key && s.full[i] > 0:
			return i, true
		case s.full[i] < s.full[at]:
			at = i
		}
	}
	return at, false
}
