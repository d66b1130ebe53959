package isr_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// expectStale checks that a visitor got the first rendering, and the detail.
func expectStale(t *testing.T, a answer, reason string) {
	t.Helper()
	expect(t, a, "/ rendered 1", "isr; hit; ttl=-")
	if !strings.HasSuffix(a.status(), "; detail="+reason) {
		t.Errorf("status %q, want detail=%s", a.status(), reason)
	}
}

// expectRefused checks a 503 with Retry-After.
func expectRefused(t *testing.T, a answer, reason, retry string) {
	t.Helper()
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != retry || !strings.HasSuffix(a.status(), "; detail="+reason) {
		t.Errorf("got %d, Retry-After %q, %q; want 503, %q, detail=%s", a.Code, a.Header().Get("Retry-After"), a.status(), retry, reason)
	}
}

func failing(w http.ResponseWriter, _ *http.Request, _ int64) { http.Error(w, "broken", 500) }

func TestPolicyText(t *testing.T) {
	for _, p := range []isr.Policy{isr.ServeStale, isr.Wait} {
		text, err := p.MarshalText()
		var back isr.Policy
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != p {
			t.Errorf("%v is written %q and read as %v, %v", p, text, back, err)
		}
	}
	if _, err := isr.Policy(9).MarshalText(); err == nil {
		t.Error("a policy that there is not can be written")
	}
	for text, want := range map[string]string{"Wait": "expected serve-stale or wait", "fail": "was removed; use serve-stale"} {
		if err := new(isr.Policy).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parsing %q: %v, want %q", text, err, want)
		}
	}
}

// staleSite is a site with a page that was rendered once, two minutes ago.
func staleSite(tb *table, rt isr.Route, change func(*isr.Config)) (*site, http.Handler) {
	site := newSite()
	h := tb.node(tb.store("a"), change).Handler(rt, site)
	get(h, "/")
	time.Sleep(2 * time.Minute)
	return site, h
}

func TestWaitForTheNewPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		site, h := staleSite(tb, isr.Route{Policy: isr.Wait}, nil)
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expect(t, a, "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; ")
			if a.took != site.delay {
				t.Errorf("took %v, want that of a render", a.took)
			}
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=5")
	})
}

func TestWaitForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		rt := isr.Route{Policy: isr.Wait}
		site, a := staleSite(tb, rt, nil)
		b := tb.node(tb.store("b"), nil).Handler(rt, site)
		for i, got := range crowd(20, []http.Handler{a, b}, "/") {
			expect(t, got, "/ rendered 2", "isr; fwd=")
			if got.took > 4*time.Second {
				t.Errorf("visitor %d waited %v for a render of %v", i, got.took, site.delay)
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	patience := func(c *isr.Config) { c.Wait = 3 * time.Second }
	t.Run("slow render", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			site, h := staleSite(newTable(t), isr.Route{Policy: isr.Wait}, patience)
			site.delay = 20 * time.Second
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took != 3*time.Second {
				t.Errorf("waited %v", a.took)
			}
			time.Sleep(site.delay)
			expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=")
		})
	})
	t.Run("slow store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			site, _ := staleSite(tb, isr.Route{Policy: isr.Wait}, nil)
			site.delay = 20 * time.Second
			slow := &brokenStore{MetaStore: tb.store("b")}
			slow.delay.Store(int64(100 * time.Millisecond))
			h := tb.node(slow, func(c *isr.Config) { c.Wait = 50 * time.Millisecond }).Handler(isr.Route{Policy: isr.Wait}, site)
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took > time.Second {
				t.Errorf("waited %v", a.took)
			}
		})
	})
	t.Run("dead holder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			_, h := staleSite(tb, isr.Route{Policy: isr.Wait}, patience)
			tb.hold(page, 10*time.Second)
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took < 3*time.Second || a.took > 5*time.Second {
				t.Errorf("waited %v", a.took)
			}
			time.Sleep(10 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored")
		})
	})
}

// hold acquires a page's lease for a process that does not exist.
func (tb *table) hold(k store.Key, d time.Duration) {
	tb.t.Helper()
	if _, err := tb.store("another").Acquire(tb.t.Context(), store.HashedPartition(k), d, nil); err != nil {
		tb.t.Fatal(err)
	}
}

// After a failed render no visitor waits until the back-off ends.
func TestWaitEndsWithTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Policy: isr.Wait}
		store := &faultyStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(rt, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		site.answers(failing)
		a := get(h, "/")
		expectStale(t, a, "render-failed")
		if a.took != site.delay {
			t.Errorf("waited %v", a.took)
		}
		other := tb.node(tb.store("b"), nil).Handler(rt, site)
		for _, h := range []http.Handler{h, other, h, other} {
			a := get(h, "/")
			expectStale(t, a, "back-off")
			if a.took > 0 {
				t.Errorf("in the back-off, a visitor waited %v", a.took)
			}
		}
		store.read = func() error { return errors.New("the store was asked") }
		expectStale(t, get(h, "/"), "back-off") // this node knows without asking
		store.read = nil
		site.answers(cacheable)
		time.Sleep(3 * time.Second)
		expect(t, get(h, "/"), "/ rendered 3", "isr; fwd=stale; fwd-status=200; stored")
	})
}

func TestWaitWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		c := tb.node(store, nil)
		h := c.Handler(isr.Route{Policy: isr.Wait}, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		store.read = func() error { return errors.New("the store is down") }
		expectStale(t, get(h, "/"), "store-error")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectStale(t, get(h, "/"), "closing")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders: the visitors were sent to the origin", n)
		}
	})
}

// A page that is stored is served, however slowly it is read.
func TestSlowStoreServesStoredPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{}
		get(tb.node(tb.store("a"), nil).Handler(rt, site), "/")
		fresh := tb.node(&slowStore{tb.store("b")}, nil).Handler(rt, site)
		for _, a := range crowd(20, []http.Handler{fresh}, "/") {
			expect(t, a, "/ rendered 1", "isr; hit; ttl=5")
		}
		time.Sleep(2 * time.Minute)
		c := tb.node(&slowStore{tb.store("c")}, func(c *isr.Config) { c.Memory = -1 })
		stale := c.Handler(isr.Route{Name: "site"}, site)
		for _, a := range crowd(20, []http.Handler{stale}, "/") {
			expectStale(t, a, "stale")
		}
	})
}

// A failure is not shown while there is a page to serve, in memory or not.
func TestFailureIsNotRememberedIfThereIsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, h := staleSite(newTable(t), isr.Route{}, func(c *isr.Config) { c.Memory = -1 })
		site.answers(failing)
		for range 5 {
			expectStale(t, get(h, "/"), "stale")
			time.Sleep(site.delay + time.Millisecond)
		}
	})
}

// Retry-After is the end of the back-off, also on a node that knows it only from the table.
func TestRetryAfterBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(failing)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for range 6 {
			time.Sleep(time.Minute)
			get(h, "/")
		}
		left := math.Ceil(time.Until(tb.record(page).Lock.ExpiresAt).Seconds())
		other := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		if left < 15 {
			t.Errorf("the sixth pause is %v s", left)
		}
		expectRefused(t, get(other, "/"), "back-off", fmt.Sprint(left))
	})
}

// A forced regeneration does not affect visitors of the page meanwhile.
func TestVisitorsDuringRegenerate(t *testing.T) {
	for _, policy := range []isr.Policy{isr.ServeStale, isr.Wait} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				c := tb.node(tb.store("a"), func(c *isr.Config) { c.Memory = -1 })
				h := c.Handler(isr.Route{Name: "site", Policy: policy}, site)
				get(h, "/")
				done := make(chan error)
				go func() {
					_, err := c.Regenerate(t.Context(), page)
					done <- err
				}()
				time.Sleep(site.delay / 2)
				a := get(h, "/")
				expect(t, a, "/ rendered 1", "isr; hit; ttl=5")
				if a.took > 0 {
					t.Errorf("waited %v", a.took)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A slowStore delays reads.
type slowStore struct{ store.MetaStore }

func (s *slowStore) Read(ctx context.Context, pk string) (store.Record, error) {
	time.Sleep(10 * time.Millisecond)
	return s.MetaStore.Read(ctx, pk)
}
