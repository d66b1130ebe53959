package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

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
			notOld(t, "in place of a failure", get(p, "/"))
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
			t.Errorf("the entry that was published meanwhile: %+v", e)
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
