package gateway

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Buckets are exact in time: a burst at first, then one token in each interval, and no more than a burst again.
func TestBucketsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key, interval, burst = 7, 100 * time.Millisecond, 20
		b := newBuckets()
		expect := func(want int) {
			t.Helper()
			n := 0
			for range 100 {
				if b.take(key, interval, burst) == 0 {
					n++
				}
			}
			if n != want {
				t.Errorf("%d tokens, want %d", n, want)
			}
		}
		expect(20)
		if wait := b.take(key, interval, burst); wait != interval {
			t.Errorf("the next token comes in %v", wait)
		}
		time.Sleep(time.Second)
		expect(10)
		time.Sleep(99 * time.Millisecond)
		expect(0)
		time.Sleep(time.Millisecond)
		expect(1)
		b.giveBack(key, interval)
		expect(1)
		time.Sleep(time.Hour)
		expect(20)
	})
}

// Concurrent requests take no more than there is.
func TestBucketsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, taken := newBuckets(), atomic.Int64{}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 50 {
					if b.take(1, time.Second, 100) == 0 {
						taken.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 100 {
			t.Errorf("%d tokens were taken", n)
		}
	})
}

// In a set without room, the bucket is forgotten that is full again first.
func TestBucketsForgetTheFullest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuckets()
		const used = 5
		for b.take(used, time.Second, 10) == 0 {
		}
		for i := range uint64(10_000) {
			if b.take(used+(i+1)*bucketSets, time.Second, 10) != 0 {
				t.Fatal("a new key begins without a token")
			}
		}
		if b.take(used, time.Second, 10) == 0 {
			t.Error("a flood of keys has filled a bucket")
		}
	})
}
