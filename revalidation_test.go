package isr_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A readGauge delays reads, and records how many were concurrent.
type readGauge struct {
	store.MetaStore
	delay     atomic.Int64
	now, most atomic.Int64
}

func (g *readGauge) Read(ctx context.Context, pk string) (store.Record, error) {
	for n, most := g.now.Add(1), g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	defer g.now.Add(-1)
	time.Sleep(time.Duration(g.delay.Load()))
	return g.MetaStore.Read(ctx, pk)
}

// After a gap in the log all pages are read again. However many are requested at once, the
// number of concurrent reads is bounded, and visitors get their pages.
func TestReadsAfterAGapAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, limit = 200, 128
		tb, site := newTable(t), newSite()
		site.delay = 0
		gauge := &readGauge{MetaStore: tb.store("a")}
		c := tb.node(gauge, nil)
		h := c.Handler(isr.Route{}, site)
		for i := range pages {
			get(h, fmt.Sprint("/", i))
		}
		time.Sleep(3 * time.Second)
		gauge.delay.Store(int64(50 * time.Millisecond))
		gauge.most.Store(0)
		tb.putLog(5)
		time.Sleep(isr.DefaultPoll + gapDelay)
		var wg sync.WaitGroup
		for i := range pages {
			wg.Go(func() {
				if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || !strings.HasPrefix(a.status(), "isr; hit") {
					t.Errorf("page %d: %d %q", i, a.Code, a.status())
				}
			})
		}
		wg.Wait()
		if !strings.Contains(tb.log.String(), "the log has a gap") {
			t.Error("there was no gap")
		}
		if n := gauge.most.Load(); n > limit {
			t.Errorf("%d reads at once, at most %d are bearable", n, limit)
		}
	})
}

// Reads that hang delay other reads by at most their own deadline.
func TestHangingReadsDelayOthersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		store.hangs.Store(true)
		h := tb.node(store, func(cfg *isr.Config) { cfg.Poll = -1 }).Handler(isr.Route{}, site)
		var wg sync.WaitGroup
		for i := range 150 {
			wg.Go(func() {
				if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || a.took != isr.DefaultStoreTimeout+site.delay {
					t.Errorf("page %d: %d after %v", i, a.Code, a.took)
				}
			})
		}
		wg.Wait()
		store.hangs.Store(false)
		time.Sleep(time.Minute)
		for i := range 150 {
			if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || strings.Contains(a.status(), "store-error") || strings.Contains(a.status(), "unpublished") {
				t.Errorf("page %d, once the store is well: %d %q", i, a.Code, a.status())
			}
		}
	})
}
