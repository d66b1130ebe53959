package gateway

import (
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newBalancer(b Balance, weights ...int) *balancer {
	o := Origin{Balance: b, SlowStart: 10 * time.Second}.withDefaults()
	all := &balancer{balance: o.Balance, slowStart: o.SlowStart, ejection: o.Ejection}
	for _, weight := range weights {
		all.addresses = append(all.addresses, &address{url: new(url.URL), balanceState: balanceState{weight: weight}})
	}
	return all
}

// sent returns how many of n requests each address gets first. With open, responses do not end.
func (b *balancer) sent(n int, open bool) []int {
	counts := make([]int, len(b.addresses))
	for range n {
		i := b.choose(b.addresses, time.Now())
		counts[i]++
		if open {
			b.addresses[i].open.Add(1)
		}
	}
	return counts
}

func TestBalances(t *testing.T) {
	if got := newBalancer(BalanceFirst, 1, 1).sent(10, false); got[0] != 10 {
		t.Errorf("first: %v", got)
	}
	if got := newBalancer(BalanceRoundRobin, 1, 1, 1).sent(300, false); got[0] != 100 || got[1] != 100 {
		t.Errorf("round robin: %v", got)
	}
	b := newBalancer(BalanceRoundRobin, 3, 1)
	if got := b.sent(400, false); got[0] != 300 {
		t.Errorf("round robin by weights: %v", got)
	}
	if got := b.sent(2, false); got[1] > 1 {
		t.Errorf("an address of weight 1 got two turns: %v", got)
	}
	// While requests end at once, shares follow the weights; while none ends, exactly.
	if got := newBalancer(BalanceLeast, 3, 1).sent(4000, false); got[1] < 600 || got[1] > 1400 {
		t.Errorf("least by weights: %v", got)
	}
	if got := newBalancer(BalanceLeast, 3, 1).sent(400, true); got[1] < 95 || got[1] > 105 {
		t.Errorf("least with open requests: %v", got)
	}
	b = newBalancer(BalanceLeast, 1, 1, 1)
	b.addresses[1].open.Store(50) // it is slow
	if got := b.sent(60, true); got[1] > 0 {
		t.Errorf("a slow address got %v", got)
	}
}

// Health checks decide before ejections, and ejections before the balance; an address that is back begins slowly.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBalancer(BalanceRoundRobin, 1, 1)
		first := b.addresses[0]
		first.down.Store(true)
		if got := b.sent(10, false); got[0] > 0 {
			t.Errorf("an address that is down got %v", got)
		}
		b.failed(b.addresses[1], true)
		if got := b.sent(10, false); got[1] != 10 {
			t.Errorf("of a down and an ejected address, %v", got)
		}
		time.Sleep(time.Hour)
		first.down.Store(false)
		b.back(first)
		share := func() float64 { return float64(b.sent(5000, false)[0]) / 5000 }
		if got := share(); got > .1 {
			t.Errorf("at first %v of the requests", got)
		}
		time.Sleep(3 * time.Second)
		if got := share(); got < .1 || got > .2 {
			t.Errorf("after 3 of 10 seconds %v of the requests", got)
		}
		time.Sleep(7 * time.Second)
		if got := share(); got != .5 {
			t.Errorf("at last %v of the requests", got)
		}
	})
}

func TestEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBalancer(BalanceLeast, 1, 1, 1)
		bad, good := b.addresses[0], b.addresses[1]
		fail := func(a *address, n int) (last time.Duration) {
			for range n {
				last = b.failed(a, false)
			}
			return last
		}
		if got := fail(bad, 4); got != 0 {
			t.Errorf("ejected for %s after four failures", got)
		}
		b.worked(bad, time.Now())
		if got := fail(bad, 4); got != 0 {
			t.Error("failures before a success count")
		}
		if got := fail(bad, 1); got != 10*time.Second || bad.isUp(time.Now()) {
			t.Errorf("ejected for %s", got)
		}
		// Requests that began before do not end it.
		b.worked(bad, time.Now().Add(-time.Second))
		if bad.isUp(time.Now()) {
			t.Error("a request that began before has ended the ejection")
		}
		// A second of three would be more than half.
		if got := fail(good, 20); got != 0 {
			t.Error("more than half of the addresses are ejected")
		}
		for _, want := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
			b.worked(good, time.Now())
			time.Sleep(2 * time.Minute / 4)
			for !bad.isUp(time.Now()) {
				time.Sleep(time.Second)
			}
			bad.ejectedUntil.Store(time.Now().UnixNano()) // it ends now
			if got := fail(bad, 5); got != want {
				t.Errorf("ejected for %s, expected %s", got, want)
			}
		}
		time.Sleep(time.Hour)
		if got := fail(bad, 5); got != 10*time.Second {
			t.Errorf("after it was in use for long, ejected for %s", got)
		}
		// It is asked as the last one, and answers.
		time.Sleep(time.Second)
		b.worked(bad, time.Now())
		if !bad.isUp(time.Now()) {
			t.Error("it answers, and is not up")
		}
	})
}

// A page that fails on every address ejects none of them.
func TestNoOutlier(t *testing.T) {
	b := newBalancer(BalanceRoundRobin, 1, 1)
	for range 100 {
		b.failed(b.addresses[b.choose(b.addresses, time.Now())], false)
	}
	for _, a := range b.addresses {
		if a.ejections.Load() != 0 {
			t.Error("an address was ejected that fails like the others")
		}
	}
	if b.failed(b.addresses[0], true) == 0 || b.failed(b.addresses[1], true) == 0 {
		t.Error("addresses that cannot be connected to are not ejected")
	}
	if got := b.sent(10, false); got[0] != 5 {
		t.Errorf("of two ejected addresses, %v", got)
	}
}

// TestChooseWhileAddressesChange: an address goes down, and comes back, while another request looks at it.
func TestChooseWhileAddressesChange(t *testing.T) {
	for _, balance := range []Balance{BalanceLeast, BalanceRoundRobin, BalanceFirst} {
		b := &balancer{balance: balance, addresses: []*address{{balanceState: balanceState{weight: 1}}, {balanceState: balanceState{weight: 1}}}}
		b.addresses[1].down.Store(true)
		done := make(chan struct{})
		var changing sync.WaitGroup
		changing.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					b.addresses[0].down.Store(!b.addresses[0].down.Load())
				}
			}
		})
		for range 200_000 {
			if i := b.choose(b.addresses, time.Now()); i > 1 {
				t.Fatalf("chose %d of 2", i)
			}
		}
		close(done)
		changing.Wait()
	}
}
