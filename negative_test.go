package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	c := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Memory = 8 << 20 })
	h := c.Handler(isr.Route{}, site)
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
	// A flight whose visitors did not wait for a slow store still has its lease.
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// With StoreNegative, 404s are stored like other pages, but no longer than a day
// beyond their windows.
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

// answerOf answers with a status and a header line "Name: value", or none if empty.
func answerOf(status int, line string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, n int64) {
		if name, value, ok := strings.Cut(line, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "withdrawn %d", n)
	}
}

func broken(w http.ResponseWriter, _ *http.Request, _ int64) {
	w.WriteHeader(http.StatusInternalServerError)
}

// lasting is a page with a long stale window and a long stale-if-error.
func lasting(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400, stale-if-error=86400")
	fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
}

// notOld checks that an answer is not the page from before the withdrawal.
func notOld(t *testing.T, when string, a answer) {
	t.Helper()
	if a.Code == http.StatusOK && strings.Contains(a.Body.String(), "rendered 1") {
		t.Errorf("%s: the withdrawn page was served: %q", when, a.status())
	}
}

// A response that withdraws a page ends the stored copy: no node serves it again, whatever
// happens, until a render succeeds.
func TestWithdrawnPageIsNotServedAgain(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int64){
		"401":                        answerOf(http.StatusUnauthorized, ""),
		"403":                        answerOf(http.StatusForbidden, ""),
		"404":                        answerOf(http.StatusNotFound, "Cache-Control: max-age=0"),
		"404 storable":               answerOf(http.StatusNotFound, "Cache-Control: public, max-age=60, stale-while-revalidate=86400"),
		"410":                        answerOf(http.StatusGone, ""),
		"451":                        answerOf(http.StatusUnavailableForLegalReasons, ""),
		"private":                    answerOf(http.StatusOK, "Cache-Control: private"),
		"no-store":                   answerOf(http.StatusOK, "Cache-Control: no-store"),
		"no-cache":                   answerOf(http.StatusOK, "Cache-Control: no-cache"),
		"Set-Cookie":                 answerOf(http.StatusOK, "Set-Cookie: session=1"),
		"a quote that hides private": answerOf(http.StatusOK, `Cache-Control: foo="bar, private`),
		"a redirect":                 answerOf(http.StatusFound, "Location: /login"),
		"a redirect, storable":       answerOf(http.StatusMovedPermanently, "Cache-Control: public, max-age=60, stale-while-revalidate=86400"),
	} {
		for _, history := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, history %d", name, history), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { withdraw(t, answer, history) })
			})
		}
	}
}

func withdraw(t *testing.T, answer func(http.ResponseWriter, *http.Request, int64), history int) {
	tb, site := newTable(t), newSite()
	tb.poll = rarely
	rt := isr.Route{Name: "site", Revalidate: time.Minute, Stale: 24 * time.Hour, History: history}
	a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
	site.answers(lasting)
	get(a, "/")
	expect(t, get(b, "/"), "/ rendered 1", "isr; hit")

	time.Sleep(time.Minute)
	site.answers(answer)
	get(a, "/") // the last that is served it
	time.Sleep(2 * time.Second)
	notOld(t, "at the node that was told", get(a, "/"))
	notOld(t, "at another node", get(b, "/"))
	notOld(t, "after a restart", get(tb.peer("c", rt, site, nil), "/"))

	time.Sleep(150 * time.Second) // longer than the negative cache remembers
	site.answers(broken)
	for _, p := range []*peer{a, b, tb.peer("d", rt, site, nil)} {
		for range 3 {
			notOld(t, "instead of a failure", get(p, "/"))
			time.Sleep(3 * time.Second)
		}
	}
	site.answers(cacheable)
	time.Sleep(5 * time.Minute)
	for _, p := range []*peer{a, b} {
		get(p, "/")
		time.Sleep(2 * time.Second)
		if got := get(p, "/"); got.Code != http.StatusOK || !strings.Contains(got.status(), "hit") {
			t.Errorf("after a new render: %d %q", got.Code, got.status())
		}
	}
}

// Other refusals do not end the stored copy: a busy origin says nothing about the page.
func TestOtherRefusalsWithdrawNothing(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int64){
		"400, not to be stored": answerOf(http.StatusBadRequest, "Cache-Control: private, no-store"),
		"400, with a cookie":    answerOf(http.StatusBadRequest, "Set-Cookie: limit=1"),
		"undeclared Vary":       answerOf(http.StatusOK, "Vary: Accept-Language"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				tb.poll = rarely
				site.delay = 0
				p := tb.peer("a", isr.Route{Name: "site", Revalidate: time.Minute}, site, nil)
				get(p, "/")
				site.answers(answer)
				time.Sleep(10 * time.Minute)
				get(p, "/")
				time.Sleep(5 * time.Minute) // the refusal is forgotten
				site.answers(broken)
				expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
			})
		})
	}
}

// No response of the origin ends a pin.
func TestPinnedPageIsNotWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil)
		get(p, "/")
		if _, err := p.Pin(t.Context(), page, time.Hour); err != nil {
			t.Fatal(err)
		}
		site.answers(answerOf(http.StatusForbidden, ""))
		time.Sleep(10 * time.Minute)
		expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
		if _, err := p.Regenerate(t.Context(), page, isr.WithUnpin()); !errors.Is(err, isr.ErrUncacheable) {
			t.Errorf("Regenerate: %v", err)
		}
		expect(t, get(p, "/"), "/ rendered 1", "isr; hit")

		time.Sleep(time.Hour) // the pin has ended
		get(p, "/")
		time.Sleep(2 * time.Second)
		notOld(t, "after the pin", get(p, "/"))
	})
}

// A forced regeneration that is refused ends the copy. Its request has failed, and may be
// repeated. The page cannot be pinned, but rolled back.
func TestForcedRegenerationWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		get(p, "/")
		site.answers(answerOf(http.StatusOK, "Cache-Control: private"))
		_, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r1"))
		if !errors.Is(err, isr.ErrUncacheable) || !strings.Contains(err.Error(), "private") {
			t.Errorf("Regenerate: %v", err)
		}
		notOld(t, "then", get(p, "/"))
		if _, err := p.Pin(t.Context(), page, time.Hour); !errors.Is(err, store.ErrNoVersion) || !strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("Pin: %v", err)
		}
		site.answers(cacheable)
		again, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r1"))
		if err != nil || again.Replayed {
			t.Errorf("the request again: %+v, %v", again, err)
		}
		site.answers(answerOf(http.StatusForbidden, ""))
		if _, err := p.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrUncacheable) {
			t.Errorf("Regenerate: %v", err)
		}
		if _, err := p.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(p, "/"), "/ rendered 1", "isr; hit") // what was before the one that was withdrawn
	})
}

// Only the holder of the lease withdraws a page, and a newer publish stays.
func TestWithdrawalDoesNotUndoANewerPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		rt := isr.Route{Name: "site", Stale: 24 * time.Hour}
		a := tb.node(store, nil).Handler(rt, site)
		other := newSite()
		b := tb.peer("b", rt, other, nil)
		get(a, "/")
		time.Sleep(time.Minute)
		site.answers(answerOf(http.StatusForbidden, ""))
		store.publish = func() error { // while the withdrawal is on its way
			store.publish = nil
			tb.breakLease(t)
			if _, err := b.Regenerate(t.Context(), page); err != nil {
				t.Error(err)
			}
			return errPassOn
		}
		get(a, "/")
		time.Sleep(5 * time.Second)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		if e := tb.record(page).Entry; e == nil || e.Withdrawn {
			t.Errorf("the entry that was published since: %+v", e)
		}
	})
}

// breakLease frees the lease of the page.
func (tb *table) breakLease(t *testing.T) {
	t.Helper()
	s := tb.store("operator")
	rec, err := s.Read(t.Context(), store.HashedPartition(page))
	if err == nil {
		err = s.BreakLease(t.Context(), rec)
	}
	if err != nil {
		t.Error(err)
	}
}

// A withdrawal that cannot be stored takes effect in this process, and is stored once the
// store answers.
func TestWithdrawalDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		site.delay = 0
		site.answers(lasting)
		store := &brokenStore{MetaStore: tb.store("a")}
		rt := isr.Route{Name: "site", Stale: time.Hour}
		h := tb.node(store, nil).Handler(rt, site)
		get(h, "/")
		time.Sleep(2 * time.Hour) // expired, and to be served if the origin fails
		site.answers(answerOf(http.StatusForbidden, ""))
		store.fails.Store(true)
		notOld(t, "in the outage", get(h, "/"))
		time.Sleep(5 * time.Minute)
		site.answers(broken)
		notOld(t, "in the outage, when the origin fails", get(h, "/"))
		time.Sleep(time.Minute)
		store.fails.Store(false)
		time.Sleep(time.Minute)
		notOld(t, "after the outage", get(h, "/"))
		time.Sleep(time.Minute)
		site.answers(answerOf(http.StatusForbidden, ""))
		notOld(t, "after the outage, refused", get(h, "/"))
		if e := tb.record(page).Entry; e == nil || !e.Withdrawn {
			t.Errorf("the entry: %+v", e)
		}
	})
}

// A withdrawn page is rendered no more often than other refused pages, and its row is not
// written again.
func TestWithdrawnPageIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		site.delay = 0
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil)
		get(p, "/")
		site.answers(answerOf(http.StatusForbidden, ""))
		time.Sleep(time.Hour)
		get(p, "/")
		time.Sleep(time.Second)
		get(p, "/")
		version := tb.record(page).Entry.Version
		time.Sleep(time.Hour)
		for range 10 {
			if got := get(p, "/"); got.Code != http.StatusForbidden {
				t.Errorf("%d", got.Code)
			}
		}
		if again := tb.record(page).Entry.Version; again != version {
			t.Errorf("the entry was written again: version %d after %d", again, version)
		}
	})
}

// Visitors who waited for the render that withdrew the page each get their own response of
// the origin.
func TestWithdrawnWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Policy: isr.Wait, Stale: time.Hour}, site)
		get(h, "/")
		time.Sleep(time.Minute)
		site.answers(answerOf(http.StatusForbidden, ""))
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			if a.Code != http.StatusForbidden {
				t.Errorf("%d %q", a.Code, a.status())
			}
		}
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("then %d", w.Code)
		}
	})
}
