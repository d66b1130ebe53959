package isr_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// A thousand nodes that wait for one missing page read META about once a second each, also
// in the first second. The first read, which found nothing, is not counted.
func TestPollsOfWaitingNodesAreBounded(t *testing.T) {
	const nodes = 1_000
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 5 * time.Second
		stores := make([]*faultyStore, nodes)
		hs := make([]http.Handler, nodes)
		for i := range nodes {
			stores[i] = &faultyStore{MetaStore: tb.store(fmt.Sprint("node", i))}
			hs[i] = tb.node(stores[i], func(cfg *isr.Config) { cfg.Poll = -1 }).Handler(isr.Route{}, site)
		}
		reads := func() (n int64) {
			for _, s := range stores {
				n += s.reads.Load()
			}
			return n
		}
		var wg sync.WaitGroup
		for _, h := range hs {
			wg.Go(func() {
				if a := get(h, "/"); a.Body.String() != "/ rendered 1" || a.took > site.delay+1500*time.Millisecond {
					t.Errorf("%q after %v", a.Body, a.took)
				}
			})
		}
		synctest.Wait()
		before := reads()
		for second := range 5 {
			time.Sleep(time.Second)
			// As measured: 1,242 in the first second, and 1,004 to 1,082 in each later one.
			if n := reads() - before; n > nodes*13/10 || second > 0 && n > nodes*11/10 {
				t.Errorf("%d nodes read %d times in second %d", nodes, n, second)
			}
			before = reads()
		}
		wg.Wait()
	})
}

// Nodes that know how long renders of the route take look for a page when it is likely to be
// stored. The first read, which found nothing, is not counted.
func TestWaitingNodesSeeAPageWhenItIsStored(t *testing.T) {
	const nodes, aim = 3, 40 * time.Millisecond
	var looks, waited float64 // by all nodes that waited
	for _, c := range []struct {
		usual, this time.Duration // how long renders took before, and how long this one takes
		within      time.Duration // of its end
		looks       int64         // of each node that waits, at most
	}{
		{100 * time.Millisecond, 100 * time.Millisecond, aim, 1},
		{400 * time.Millisecond, 400 * time.Millisecond, aim, 1},
		{time.Second, time.Second, aim, 1},
		{2500 * time.Millisecond, 2500 * time.Millisecond, aim, 3},
		{8 * time.Second, 8 * time.Second, aim, 9},
		{time.Second, 1050 * time.Millisecond, aim, 4},
		{time.Second, 1200 * time.Millisecond, 400 * time.Millisecond, 6},
		{4 * time.Second, 4200 * time.Millisecond, 100 * time.Millisecond, 10},
		{4 * time.Second, 3200 * time.Millisecond, 850 * time.Millisecond, 4}, // it is early
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			stores, hs := make([]*faultyStore, nodes), make([]http.Handler, nodes)
			for i := range nodes {
				stores[i] = &faultyStore{MetaStore: tb.store(fmt.Sprint("node", i))}
				hs[i] = tb.node(stores[i], func(cfg *isr.Config) { cfg.Poll = -1 }).Handler(isr.Route{}, site)
			}
			site.delay = c.usual
			get(hs[0], "/earlier")
			for _, h := range hs[1:] {
				get(h, "/earlier") // from the table
			}
			before := make([]int64, nodes)
			for i, s := range stores {
				before[i] = s.reads.Load()
			}
			site.delay = c.this
			answers := crowd(60, hs, "/")
			for _, a := range answers {
				if a.Body.String() != "/ rendered 2" || a.took > c.this+c.within {
					t.Errorf("renders of %v: %q after %v of %v", c.usual, a.Body, a.took, c.this)
				}
			}
			for i, s := range stores[1:] {
				n := s.reads.Load() - before[i+1] - 1
				if n > c.looks {
					t.Errorf("renders of %v, and now %v: %d looks of a node, want at most %d", c.usual, c.this, n, c.looks)
				}
				looks, waited = looks+float64(n), waited+c.this.Seconds()
			}
		})
	}
	if looks > 2*waited {
		t.Errorf("%.1f looks a second and node, want at most 2", looks/waited)
	}
}
