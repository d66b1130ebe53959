package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// notFound answers 404, fresh for a minute.
func notFound(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, "%s not found %d", r.URL.Path, n)
}

// rowCount returns the number of rows in the table.
func (tb *table) rowCount(t *testing.T) int {
	t.Helper()
	out, err := tb.db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(tableName)})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.LastEvaluatedKey) > 0 {
		t.Fatal("the table has more rows than one page of a scan")
	}
	return len(out.Items)
}

// expectNotFound checks the body of a 404 and the beginning of its Cache-Status.
func expectNotFound(t *testing.T, a answer, body, status string) {
	t.Helper()
	if a.Code != http.StatusNotFound || a.Body.String() != body || !strings.HasPrefix(a.status(), status) {
		t.Errorf("got %d %q, %q; want 404 %q, %q", a.Code, a.Body, a.status(), body, status)
	}
}

// A 404 for a page that is not stored is kept in memory for its window, rendered once per
// process, and not stored.
func TestNegativeAnswersStayInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(notFound)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, a := range crowd(200, []http.Handler{h}, "/none") {
			expectNotFound(t, a, "/none not found 1", "isr; fwd=miss; fwd-status=404;")
			if strings.Contains(a.status(), "stored") || !strings.HasSuffix(a.status(), "; detail=negative") {
				t.Fatalf("Cache-Status %q", a.status())
			}
		}
		hit := get(h, "/none")
		expectNotFound(t, hit, "/none not found 1", "isr; hit; ttl=5")
		if !strings.HasSuffix(hit.status(), "; detail=negative") || hit.took > 0 {
			t.Errorf("a hit took %v: %q", hit.took, hit.status())
		}
		if rows, bodies := tb.rowCount(t), tb.bodyKeys(t); rows != 0 || len(bodies) != 0 {
			t.Errorf("%d rows and the bodies %q are left", rows, bodies)
		}
		time.Sleep(time.Minute) // there is no stale window
		expectNotFound(t, get(h, "/none"), "/none not found 2", "isr; fwd=miss; fwd-status=404;")
		time.Sleep(time.Minute)
		site.answers(cacheable)
		expect(t, get(h, "/none"), "/none rendered 3", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// Requests for unknown URLs store nothing, however many there are.
func TestScannerStoresNothing(t *testing.T) {
	const urls, visitors = 2_000, 50
	tb, site := newTable(t), newSite()
	site.delay = 0
	site.answers(notFound)
	h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Memory = 8 << 20 }).Handler(isr.Route{}, site)
	var wg sync.WaitGroup
	for v := range visitors {
		wg.Go(func() {
			for i := v; i < urls; i += visitors {
				if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusNotFound {
					t.Errorf("/%d: %d", i, a.Code)
				}
			}
		})
	}
	wg.Wait()
	if rows, bodies := tb.rowCount(t), tb.bodyKeys(t); rows != 0 || len(bodies) != 0 {
		t.Errorf("%d rows and %d bodies are left", rows, len(bodies))
	}
}

// A client that requests unknown, failing and uncacheable URLs with large responses evicts
// no page from memory.
func TestScannerEvictsNoPages(t *testing.T) {
	tb, site := newTable(t), newSite()
	site.delay = 0
	large := strings.Repeat("x", 20_000)
	site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		cacheable(w, r, n)
		fmt.Fprint(w, large)
	})
	p := tb.peer("a", isr.Route{}, site, func(cfg *isr.Config) { cfg.Memory = 4 << 20 })
	pages := paths(50)
	for range 3 {
		inTurn(p, pages...)
	}
	site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		switch n % 3 {
		case 0:
			w.Header().Set("Cache-Control", "public, max-age=600, stale-while-revalidate=86400")
			w.WriteHeader(http.StatusNotFound)
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.Header().Set("Cache-Control", "private")
		}
		fmt.Fprint(w, large)
	})
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for i := range 250 {
				get(p, fmt.Sprintf("/scan%d-%d", client, i))
			}
		})
	}
	wg.Wait()
	reads := p.store.reads.Load()
	for _, a := range inTurn(p, pages...) {
		if !strings.HasPrefix(a.status(), "isr; hit; ttl=") {
			t.Errorf("%d %q", a.Code, a.status())
		}
	}
	if n := p.store.reads.Load() - reads; n != 0 {
		t.Errorf("%d pages of 50 were read again after 2,000 unknown URLs", n)
	}
}

// A 404 replaces an entry for the whole fleet, and expires from the table a day after its
// windows.
func TestNegativeAnswerReplacesAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		rt := isr.Route{Stale: 10 * time.Minute}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		get(a, "/")
		site.answers(notFound)
		time.Sleep(time.Hour)
		expectNotFound(t, get(a, "/"), "/ not found 2", "isr; fwd=stale; fwd-status=404; stored")
		expectNotFound(t, get(b, "/"), "/ not found 2", "isr; hit")
		tb.expectExpiry(t, 11*time.Minute+24*time.Hour)
	})
}

// expectExpiry checks for how long after its generation the entry of the page is kept.
func (tb *table) expectExpiry(t *testing.T, want time.Duration) {
	t.Helper()
	rec, err := tb.store("reader").Read(t.Context(), store.HashedPartition(page))
	if err != nil || rec.Entry == nil {
		t.Fatalf("the entry: %v, %v", rec.Entry, err)
	}
	// The window was shortened by jitter, and the rendering took a while.
	if got := rec.Entry.Expires.Sub(rec.Entry.GeneratedAt); got > want+5*time.Second || got < want-5*time.Second {
		t.Errorf("the entry is kept for %v, want %v", got, want)
	}
}

// A forced regeneration publishes its response, even a 404.
func TestRegeneratePublishesNegativeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(notFound)
		rt := isr.Route{Name: "site", Stale: -1}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		get(a, "/")
		if _, err := a.Regenerate(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*peer{a, b} {
			expectNotFound(t, get(p, "/"), "/ not found 2", "isr; hit")
		}
		tb.expectExpiry(t, time.Minute+24*time.Hour)
		site.answers(cacheable)
		time.Sleep(time.Second)
		if _, err := a.Regenerate(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(a, "/"), "/ rendered 3", "isr; hit")
	})
}

// With StoreNegative, 404s are stored like other pages, but for at most a day beyond their
// windows.
func TestStoreNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(notFound)
		rt := isr.Route{StoreNegative: true, Stale: -1}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		expectNotFound(t, get(a, "/"), "/ not found 1", "isr; fwd=miss; fwd-status=404; stored")
		expectNotFound(t, get(b, "/"), "/ not found 1", "isr; hit")
		tb.expectExpiry(t, time.Minute+24*time.Hour)
	})
}

// A page whose entry is no longer in the store may still be in memory. Once it is rendered
// as a 404, visitors get that.
func TestNegativeAnswerReplacesWhatIsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		tb.deleteRow(store.HashedPartition(page), "META")
		site.answers(notFound)
		time.Sleep(2 * time.Minute)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=-")
		time.Sleep(5 * time.Second)
		expectNotFound(t, get(h, "/"), "/ not found 2", "isr; hit; ttl=")
	})
}

// A reload removes the negative entry: another process may have published the page.
func TestReloadRemovesNegativeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(notFound)
		b := tb.peer("b", isr.Route{}, site, nil)
		get(b, "/")
		tb.putReload(page.Text)
		time.Sleep(isr.DefaultPoll)
		expectNotFound(t, get(b, "/"), "/ not found 2", "isr; fwd=miss")
	})
}

// Whatever the freshness window of a negative answer, the page is rendered again after a few
// minutes: the node does not learn from others that the page has appeared.
func TestNegativeWindowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
			w.WriteHeader(http.StatusGone)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		if got := get(h, "/").status(); !strings.Contains(got, "; ttl=29") {
			t.Errorf("Cache-Status %q, want a ttl of five minutes", got)
		}
		site.answers(cacheable)
		time.Sleep(5 * time.Minute)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss")
	})
}
