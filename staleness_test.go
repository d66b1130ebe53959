package isr_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A heldLog delays reads of the log until they are released, or the context ends.
type heldLog struct {
	store.MetaStore
	held  atomic.Pointer[chan struct{}] // nil: answers are not
	polls atomic.Int64
}

func (l *heldLog) hold() (release func()) {
	held := make(chan struct{})
	l.held.Store(&held)
	return func() {
		l.held.Store(nil)
		close(held)
	}
}

func (l *heldLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	l.polls.Add(1)
	seq, changes, err := l.MetaStore.Changes(ctx, after)
	if held := l.held.Load(); held != nil {
		select {
		case <-*held:
		case <-ctx.Done():
			return store.Sequence{}, nil, context.Cause(ctx)
		}
	}
	return seq, changes, err
}

// A node that was frozen while a page was rolled back does not serve the page from memory,
// not even to the first request after that.
func TestThawedNodePollsFirst(t *testing.T) {
	for name, thaw := range map[string]func(b http.Handler, log *heldLog, ahead *atomic.Int64, rollback func()) answer{
		"the machine slept": func(b http.Handler, _ *heldLog, ahead *atomic.Int64, rollback func()) answer {
			rollback()
			ahead.Store(int64(3 * time.Second)) // of the wall clock alone
			return get(b, "/")
		},
		"the process was stopped in the middle of a poll": func(b http.Handler, log *heldLog, _ *atomic.Int64, rollback func()) answer {
			release := log.hold()
			time.Sleep(isr.DefaultPoll)
			rollback()
			time.Sleep(3 * time.Second)
			got := make(chan answer)
			go func() { got <- get(b, "/") }()
			synctest.Wait()
			release() // it answers what was true three seconds ago
			return <-got
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				a := tb.peer("a", withHistory, site, nil)
				a.regenerate(t, 2)
				log, ahead := &heldLog{MetaStore: tb.store("b")}, new(atomic.Int64)
				b := tb.node(log, func(cfg *isr.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				}).Handler(withHistory, site)
				expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
				time.Sleep(3 * time.Second)
				thawed := thaw(b, log, ahead, func() {
					if _, err := a.Rollback(t.Context(), page); err != nil {
						t.Fatal(err)
					}
				})
				expect(t, thawed, "/ rendered 1", "isr; hit")
				// Reads that conflict with a write are repeated within milliseconds.
				if thawed.took > isr.DefaultPoll/2 || strings.Contains(thawed.status(), "cut-off") {
					t.Errorf("answered after %v, %q", thawed.took, thawed.status())
				}
			})
		})
	}
}

// An interruptedLog fails a read of the log in its own way.
type interruptedLog struct {
	store.MetaStore
	next atomic.Pointer[func() error] // how the next read fails; nil: it does not
}

func (l *interruptedLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	if fail := l.next.Swap(nil); fail != nil {
		return store.Sequence{}, nil, (*fail)()
	}
	return l.MetaStore.Changes(ctx, after)
}

// A poll that fails because the process was frozen meanwhile is no outage of the log: all
// requests that come after that wait for another poll, and none is served what was purged.
func TestPollThatFailsInAFreezeIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 2)
		log, ahead := &interruptedLog{MetaStore: tb.store("b")}, new(atomic.Int64)
		b := tb.node(log, func(cfg *isr.Config) {
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}).Handler(withHistory, site)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		time.Sleep(3 * time.Second)
		log.next.Store(new(func() error {
			if _, err := a.Rollback(t.Context(), page); err != nil {
				t.Error(err)
			}
			ahead.Store(int64(3 * time.Second)) // the machine sleeps, and its connections are lost
			return errors.New("connection reset by peer")
		}))
		for log.next.Load() != nil { // the next poll succeeds
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		answers := make(chan answer)
		const requests = 8
		for range requests {
			go func() { answers <- get(b, "/") }()
		}
		for range requests {
			if got := <-answers; got.Body.String() != "/ rendered 1" || strings.Contains(got.status(), "cut-off") {
				t.Errorf("after the freeze: %q, %q", got.Body, got.status())
			}
		}
	})
}

// A node that cannot read the log serves pages from memory, with a detail, and without
// waiting once that is known.
func TestCutOffNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		b := twoGenerations(t, tb, 1, nil)[0]
		marked := func(path string) bool {
			t.Helper()
			a := get(b, path)
			if a.Code != http.StatusOK || a.took > 0 {
				t.Errorf("%s: %d after %v", path, a.Code, a.took)
			}
			return strings.HasSuffix(a.status(), "; detail=cut-off")
		}
		b.store.changes.Store(new(errors.New("the log is throttled")))
		time.Sleep(1500 * time.Millisecond)
		if marked("/") {
			t.Error("marked before the bound")
		}
		for range 20 {
			time.Sleep(time.Second)
			if !marked("/") {
				t.Error("not marked beyond the bound")
			}
		}
		get(b, "/other") // read from the store just now
		if marked("/other") {
			t.Error("a page is marked that was just read")
		}
		time.Sleep(3 * time.Second)
		if !marked("/other") {
			t.Error("a page is not marked that was read before the bound")
		}
		if n := strings.Count(tb.log.String(), "pages are served from memory although"); n != 1 {
			t.Errorf("%d lines of the outage, want 1", n)
		}
		b.store.changes.Store(nil)
		time.Sleep(isr.DefaultPoll)
		if marked("/") {
			t.Error("marked though the log is read again")
		}
	})
}

// While reads of the log hang, all visitors wait for one poll, for a short time; after that
// one request per bound waits.
func TestHangingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		log := &heldLog{MetaStore: tb.store("a")}
		site := newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
			_, _ = w.Write([]byte(r.URL.Path))
		})
		h := tb.node(log, nil).Handler(isr.Route{}, site)
		get(h, "/")
		time.Sleep(3 * time.Second)
		release := log.hold()
		time.Sleep(3 * time.Second)
		polls := log.polls.Load()
		waited := func() (n int) {
			for _, a := range crowd(100, []http.Handler{h}, "/") {
				switch {
				case !strings.HasSuffix(a.status(), "; detail=cut-off"):
					t.Errorf("%q", a.status())
				case a.took == isr.DefaultStoreTimeout:
					n++
				case a.took > 0:
					t.Errorf("waited %v", a.took)
				}
			}
			return n
		}
		if n := waited(); n != 100 {
			t.Errorf("%d of 100 waited for the poll", n)
		}
		if n := waited(); n != 0 {
			t.Errorf("%d waited though it was known", n)
		}
		time.Sleep(2500 * time.Millisecond)
		if n := waited(); n != 1 {
			t.Errorf("%d waited to see whether it is still so, want 1", n)
		}
		if n := log.polls.Load() - polls; n > 1 {
			t.Errorf("%d polls in 6 seconds", n)
		}
		release()
		synctest.Wait()
		expect(t, get(h, "/"), "/", "isr; hit; ttl=8")
		if a := get(h, "/"); strings.Contains(a.status(), "cut-off") {
			t.Errorf("%q once the log is read again", a.status())
		}
	})
}

// A process that does not poll has no staleness bound.
func TestNoBoundWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoGenerations(t, newTable(t), 1, func(cfg *isr.Config) { cfg.Poll = -1 })[0]
		time.Sleep(30 * time.Second)
		if a := get(p, "/"); a.took > 0 || strings.Contains(a.status(), "detail") {
			t.Errorf("%q after %v", a.status(), a.took)
		}
	})
}

// A node that starts while SEQ cannot be read serves what it reads for a short time, then
// reads META again. It keeps bodies.
func TestStartWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := twoGenerations(t, tb, 1, nil)[0]
		store, bodies := &faultyStore{MetaStore: tb.store("late")}, &countedBodies{BodyStore: tb.bodies}
		store.sequence.Store(new(errors.New("the log is throttled")))
		b := tb.nodeOn(store, bodies, nil).Handler(withHistory, newSite())
		reads := func(f func()) int64 {
			before := store.reads.Load()
			f()
			return store.reads.Load() - before
		}
		if n := reads(func() { crowd(1_000, []http.Handler{b}, "/") }); n != 1 {
			t.Errorf("%d reads for a crowd, want 1", n)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 2", "isr; hit") }); n != 0 {
			t.Errorf("%d reads within the bound, want none", n)
		}
		time.Sleep(time.Second)
		if n := reads(func() { crowd(1_000, []http.Handler{b}, "/") }); n != 1 {
			t.Errorf("%d reads beyond the bound, want 1", n)
		}
		if n := bodies.opens.Load(); n != 1 {
			t.Errorf("the body was fetched %d times", n)
		}

		if _, err := a.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2100 * time.Millisecond)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		store.sequence.Store(nil)
		time.Sleep(isr.DefaultPoll)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 1", "isr; hit") }); n != 1 {
			t.Errorf("%d reads once the log is known, want 1: what was read before may be old", n)
		}
		time.Sleep(3 * time.Second)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 1", "isr; hit") }); n != 0 {
			t.Error("the page is not served from memory once the log is known")
		}
		if n := bodies.opens.Load(); n != 2 {
			t.Errorf("bodies were fetched %d times, want once each", n)
		}
	})
}

// If META cannot be read either, the page is served, with a detail.
func TestStartWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		twoGenerations(t, tb, 1, nil)
		store := &faultyStore{MetaStore: tb.store("late")}
		store.sequence.Store(new(errors.New("the store is down")))
		b := tb.node(store, nil).Handler(withHistory, newSite())
		get(b, "/")
		store.read = func() error { return errors.New("the store is down") }
		time.Sleep(3 * time.Second)
		a := get(b, "/")
		expect(t, a, "/ rendered 2", "isr; hit")
		if !strings.HasSuffix(a.status(), "; detail=cut-off") {
			t.Errorf("%q, want it marked", a.status())
		}
	})
}
