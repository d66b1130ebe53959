package buffers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/facetheory/isr/buffers"
)

func client(n byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 32) }

// One client has a quarter, all clients have the whole, and no client has no bound of its own.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := buffers.New(100)
	if b.TryAcquire(client(1), 26) || !b.TryAcquire(client(1), 25) || b.TryAcquire(client(1), 1) {
		t.Error("a client has not a quarter")
	}
	for n := byte(2); n <= 4; n++ {
		if !b.TryAcquire(client(n), 25) {
			t.Errorf("client %d has no quarter", n)
		}
	}
	if b.TryAcquire(client(5), 1) || b.TryAcquire(netip.Prefix{}, 1) {
		t.Error("more than the whole was acquired")
	}
	if used, total := b.Usage(); used != 100 || total != 100 {
		t.Errorf("%d of %d bytes are used, expected 100 of 100", used, total)
	}
	for n := byte(1); n <= 4; n++ {
		b.Release(client(n), 25)
	}
	if !b.TryAcquire(netip.Prefix{}, 100) {
		t.Error("no client is bounded by less than the whole")
	}
	b.Release(netip.Prefix{}, 100)
	if used, _ := b.Usage(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	if err := b.Acquire(t.Context(), client(1), 26); !errors.Is(err, buffers.ErrTooLarge) {
		t.Errorf("more than a client may have: %v", err)
	}
}

// No budget has no limit.
func TestNil(t *testing.T) {
	t.Parallel()
	var b *buffers.Budget
	if !b.TryAcquire(client(1), 1<<60) || b.Acquire(t.Context(), client(1), 1<<60) != nil {
		t.Error("a nil budget has a limit")
	}
	b.Release(client(1), 1<<60)
	if b.Part(1) != nil {
		t.Error("a part of it has a limit")
	}
}

// Bytes go to the client that has the fewest, a client with its part delays no other, and a large waiter is
// not overtaken by small ones.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := buffers.New(100)
		var order []byte
		wait := func(n byte, bytes int64) {
			go func() {
				if err := b.Acquire(t.Context(), client(n), bytes); err != nil {
					t.Error(err)
				}
				order = append(order, n)
			}()
			synctest.Wait()
		}
		if !b.TryAcquire(client(1), 25) || !b.TryAcquire(client(2), 10) || !b.TryAcquire(netip.Prefix{}, 60) {
			t.Fatal("no room")
		}
		wait(1, 5) // has its part
		wait(3, 5) // is not delayed by that
		if string(order) != "\x03" {
			t.Fatalf("order %v", order)
		}
		wait(2, 15)
		wait(4, 20) // has fewer bytes than client 2
		b.Release(netip.Prefix{}, 10)
		synctest.Wait()
		if b.TryAcquire(client(5), 1) || len(order) != 1 {
			t.Fatalf("order %v: a small request overtook a large one", order)
		}
		b.Release(netip.Prefix{}, 10)
		synctest.Wait()
		b.Release(netip.Prefix{}, 15)
		synctest.Wait()
		b.Release(client(1), 25)
		synctest.Wait()
		if string(order) != "\x03\x04\x02\x01" {
			t.Errorf("order %v", order)
		}
	})
}

// A waiter that gives up leaves its place.
func TestCanceledWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := buffers.New(100)
		if !b.TryAcquire(netip.Prefix{}, 90) {
			t.Fatal("no room")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		ended := make(chan error)
		go func() { ended <- b.Acquire(ctx, client(1), 20) }()
		synctest.Wait()
		if b.TryAcquire(client(2), 5) {
			t.Error("a waiter was overtaken")
		}
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if !b.TryAcquire(client(2), 10) {
			t.Error("a waiter that is gone keeps others waiting")
		}
	})
}

// Whatever the interleaving, no bound is exceeded, and everything is returned.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	b := buffers.New(1000)
	var whole atomic.Int64
	var each [5]atomic.Int64
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 300 {
				who, n := byte(random.IntN(5)), int64(1+random.IntN(250))
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					go cancel()
				}
				got := random.IntN(2) == 0 && b.TryAcquire(client(who), n) || b.Acquire(ctx, client(who), n) == nil
				if got {
					if all, one := whole.Add(n), each[who].Add(n); all > 1000 || one > 250 {
						t.Errorf("%d in all, %d of one client", all, one)
					}
					whole.Add(-n)
					each[who].Add(-n)
					b.Release(client(who), n)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if used, _ := b.Usage(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// Users of a part have no more than that, and of the whole no more than is free.
func TestPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		whole := buffers.New(100)
		part := whole.Part(50)
		if !part.TryAcquire(netip.Prefix{}, 40) || part.TryAcquire(netip.Prefix{}, 11) || !whole.TryAcquire(client(1), 25) || !whole.TryAcquire(client(2), 25) {
			t.Error("the part is not what is free")
		}
		if err := part.Acquire(t.Context(), netip.Prefix{}, 51); !errors.Is(err, buffers.ErrTooLarge) {
			t.Errorf("more than the part: %v", err)
		}
		if !whole.TryAcquire(client(3), 5) || part.TryAcquire(netip.Prefix{}, 6) {
			t.Error("more than the whole was acquired")
		}
		ended := make(chan error, 1)
		go func() { ended <- part.Acquire(t.Context(), netip.Prefix{}, 10) }() // waits for the whole
		synctest.Wait()
		if n, _ := part.Usage(); n != 50 {
			t.Errorf("%d bytes of the part are used", n)
		}
		whole.Release(client(3), 5)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		whole.Release(client(1), 25)
		go func() { ended <- part.Acquire(ctx, netip.Prefix{}, 20) }() // waits for the part, and holds nothing of the whole up
		synctest.Wait()
		if !whole.TryAcquire(client(4), 25) {
			t.Error("who waits for a part keeps others waiting")
		}
		part.Release(netip.Prefix{}, 30)
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		go func() { ended <- part.Acquire(ctx, netip.Prefix{}, 10) }() // waits for the whole
		if !whole.TryAcquire(client(5), 10) {
			t.Error("no room")
		}
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		part.Release(netip.Prefix{}, 40)
		for n, bytes := range map[byte]int64{2: 25, 4: 25, 5: 10} {
			whole.Release(client(n), bytes)
		}
		used, _ := part.Usage()
		if all, _ := whole.Usage(); used != 0 || all != 0 {
			t.Errorf("%d and %d bytes are left", used, all)
		}
	})
}

// A reservation releases what it has, once.
func TestReservation(t *testing.T) {
	t.Parallel()
	b := buffers.New(100)
	r := b.Reserve(client(1))
	if !r.Grow(20) || r.Grow(6) || !r.Grow(5) {
		t.Error("a reservation is not bounded by the client's part")
	}
	r.Shrink(5)
	if used, _ := b.Usage(); used != 20 {
		t.Errorf("%d bytes are used, expected 20", used)
	}
	r.End()
	r.End()
	r.Shrink(20)
	if used, _ := b.Usage(); used != 0 || r.Grow(1) {
		t.Errorf("%d bytes are used after the end", used)
	}
}

func TestAllocations(t *testing.T) {
	b := buffers.New(1000)
	if !b.TryAcquire(client(1), 1) {
		t.Fatal("no room")
	}
	if n := testing.AllocsPerRun(100, func() {
		b.TryAcquire(client(2), 0)
		if b.TryAcquire(client(1), 10) {
			b.Release(client(1), 10)
		}
		b.TryAcquire(client(1), 999)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
