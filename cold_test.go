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
