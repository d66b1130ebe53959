package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A burst of 10,000 purges, on several nodes at the same time, fails none and loses none. A node
// that follows the log keeps all pages in memory that they do not cover.
func TestBurstOfPurges(t *testing.T) {
	const (
		tags    = 10_000
		pages   = 100
		callers = 150 // per node
	)
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Surrogate-Key", "tag-"+strings.Trim(r.URL.Path, "/"))
			cacheable(w, r, n)
		})
		rt := isr.Route{Name: "site"}
		follower := tb.peer("follower", rt, site, nil)
		// Every hundredth tag has a page, and as many pages have tags that are not purged.
		paths := func(visit func(i int, path string)) {
			for i := range 2 * pages {
				visit(i, fmt.Sprint("/", i*tags/pages))
			}
		}
		paths(func(_ int, path string) { get(follower, path) })
		reads := follower.store.reads.Load()

		nodes := []*peer{tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)}
		time.Sleep(time.Second)
		work := make(chan int)
		var done sync.WaitGroup
		for i := range callers * len(nodes) {
			done.Go(func() {
				for tag := range work {
					r, err := nodes[i%len(nodes)].Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", fmt.Sprint("tag-", tag))}, Hard: true})
					if err != nil || r.Seq == 0 {
						t.Errorf("purge %d: %+v, %v", tag, r, err)
					}
				}
			})
		}
		began := time.Now()
		for tag := range tags {
			work <- tag
		}
		close(work)
		done.Wait()
		took := time.Since(began)
		time.Sleep(isr.DefaultPoll)

		if n := follower.store.reads.Load() - reads; n != 0 {
			t.Errorf("%d reads of pages because of purges", n)
		}
		renders := site.renders.Load()
		paths(func(i int, path string) {
			if a, hit := get(follower, path), i >= pages; strings.HasPrefix(a.status(), "isr; hit") != hit {
				t.Errorf("%s, purged %t: %q", path, !hit, a.status())
			}
		})
		if n := site.renders.Load() - renders; n != pages {
			t.Errorf("%d renders, want %d", n, pages)
		}
		marks := 0
		for _, err := range tb.store("x").Marks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			marks++
		}
		seq, err := tb.store("x").Sequence(t.Context())
		if err != nil || marks != tags {
			t.Errorf("%d marks, want %d; %v", marks, tags, err)
		}
		if logged := tb.log.String(); strings.Contains(logged, "dropped all pages") || strings.Contains(logged, "failed to read the log") {
			t.Errorf("the follower lost the log:\n%.2000s", logged)
		}
		t.Logf("%d purges in %d transactions, in %v", tags, seq.Seq, took)
	})
}
