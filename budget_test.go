package isr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// A meter records the concurrent requests of a renderer, and the paths.
type meter struct {
	http.Handler
	now, most atomic.Int64
	mu        sync.Mutex
	paths     []string // guarded by mu
}

func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := m.now.Add(1)
	defer m.now.Add(-1)
	m.mu.Lock()
	m.most.Store(max(m.most.Load(), n))
	m.paths = append(m.paths, r.URL.Path)
	m.mu.Unlock()
	m.Handler.ServeHTTP(w, r)
}

// asked returns the requested paths so far, in order.
func (m *meter) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.paths)
}

// budget makes a budget that logs to the log of the table.
func (tb *table) budget(cfg budget.Config) *budget.Budget {
	cfg.Logger = slog.New(slog.NewTextHandler(tb.log, nil))
	return budget.New(cfg)
}

// inTurn requests pages one after the other, a little apart, and waits for all.
func inTurn(h http.Handler, paths ...string) []answer {
	answers := make([]answer, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { answers[i] = get(h, path) })
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	return answers
}

func paths(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("/%02d", i)
	}
	return all
}

func TestBudgetBoundsRenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, m := newTable(t), &meter{Handler: newSite()}
		c, shared := tb.node(tb.store("a"), nil), tb.budget(budget.Config{Renders: 3})
		one := c.Handler(isr.Route{Name: "one", Budget: shared}, m)
		two := c.Handler(isr.Route{Name: "two", Budget: shared}, m)
		either := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path < "/10" {
				one.ServeHTTP(w, r)
			} else {
				two.ServeHTTP(w, r)
			}
		})
		all := paths(20)
		for i, a := range inTurn(either, all...) {
			if a.Code != http.StatusOK || !strings.Contains(a.status(), "; stored; ") {
				t.Errorf("%s: %d %q", all[i], a.Code, a.status())
			}
		}
		if m.most.Load() != 3 || !slices.Equal(m.asked(), all) {
			t.Errorf("%d at once, in the order %v; want 3, in the order of arrival", m.most.Load(), m.asked())
		}
	})
}

func TestBudgetQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1, Queue: 2})}, site)
		answers := inTurn(h, paths(5)...)
		for _, a := range answers[:3] {
			if a.Code != http.StatusOK {
				t.Errorf("got %d %q", a.Code, a.status())
			}
		}
		for _, a := range answers[3:] {
			expectRefused(t, a, "origin-busy", "1")
			if a.took > 0 {
				t.Errorf("was told so after %v", a.took)
			}
		}
	})
}

func TestBudgetWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 10 * time.Second
		c := tb.node(tb.store("a"), func(c *isr.Config) { c.Wait = 2 * time.Second })
		h := c.Handler(isr.Route{Name: "site", Budget: tb.budget(budget.Config{Renders: 1})}, site)
		answers := inTurn(h, "/first", "/second")
		expect(t, answers[0], "/first rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		expectRefused(t, answers[1], "origin-busy", "1")
		if answers[1].took != 2*time.Second {
			t.Errorf("waited %v", answers[1].took)
		}

		go get(h, "/third")
		synctest.Wait()
		var spared *budget.Error
		if _, err := c.Regenerate(t.Context(), page); !errors.As(err, &spared) || spared.Open || spared.RetryAfter != time.Second {
			t.Errorf("%v, want a BudgetError", err)
		}
	})
}

// A fill that waits for a turn holds no lease: a process whose origin has capacity
// renders the page, once, and the waiting requests of both get it.
func TestWaitingForATurnHoldsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 20 * time.Second
		origin := &meter{Handler: site}
		busy := tb.node(tb.store("a"), nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1})}, origin)
		idle := newSite()
		free := tb.node(tb.store("b"), nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1})}, idle)
		for _, path := range []string{"/long", "/ahead"} {
			go get(busy, path)
			synctest.Wait()
		}
		waiting := make(chan answer)
		go func() { waiting <- get(busy, "/") }()
		synctest.Wait()
		if lock := tb.record(page).Lock; lock != nil {
			t.Errorf("a fill that waits for its turn holds %+v", lock)
		}
		expect(t, get(free, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		a := <-waiting
		expect(t, a, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored; collapsed; ttl=5")
		if a.took > 3*time.Second {
			t.Errorf("waited %v for a page that came after %v", a.took, idle.delay)
		}
		time.Sleep(time.Minute)
		if want := []string{"/long", "/ahead"}; !slices.Equal(origin.asked(), want) || origin.most.Load() != 1 {
			t.Errorf("the busy origin rendered %v, %d at once; want %v, one at once", origin.asked(), origin.most.Load(), want)
		}
	})
}

// A fill that waits for the lease of another process holds no turn.
func TestWaitingForALeaseHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1})}, site)
		go get(h, "/long")
		synctest.Wait()
		go get(h, "/") // queues, and then finds
		synctest.Wait()
		tb.hold(page, 30*time.Second)
		a := get(h, "/other")
		expect(t, a, "/other rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		if a.took > 2*site.delay {
			t.Errorf("waited %v for one render and its own, of %v each", a.took, site.delay)
		}
		time.Sleep(time.Minute)
		expect(t, get(h, "/"), "/ rendered 3", "isr; hit")
	})
}

func (tb *table) record(k store.Key) store.Record {
	tb.t.Helper()
	rec, err := tb.store("reader").Read(tb.t.Context(), store.HashedPartition(k))
	if err != nil {
		tb.t.Fatal(err)
	}
	return rec
}

// A mass expiry fills at most half of the queue, and leaves turns and places to missing pages.
func TestStalePagesYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, m := newTable(t), &meter{Handler: newSite()}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1, Queue: 8})}, m)
		all := paths(8)
		inTurn(h, all[:4]...) // cold pages do not take the whole queue
		inTurn(h, all[4:]...)
		time.Sleep(2 * time.Minute)
		for i, a := range inTurn(h, all...) {
			if a.took > 0 || !strings.HasSuffix(a.status(), "detail=stale") {
				t.Errorf("%s: %q after %v", all[i], a.status(), a.took)
			}
		}
		cold := inTurn(h, "/cold1", "/cold2", "/cold3", "/cold4", "/cold5")
		for _, a := range cold {
			if a.Code != http.StatusOK {
				t.Errorf("a cold visitor got %d %q", a.Code, a.status())
			}
		}
		time.Sleep(3 * time.Second)
		// The newest regeneration has lost its place to the last cold page.
		if want := []string{"/00", "/cold1", "/cold2", "/cold3", "/cold4", "/cold5", "/01", "/02", "/03"}; !slices.Equal(m.asked()[len(all):], want) {
			t.Errorf("rendered %v, want %v", m.asked()[len(all):], want)
		}
		inTurn(h, all...) // the pages that had to yield come later
		time.Sleep(10 * time.Second)
		for i, a := range inTurn(h, all...) {
			if strings.Contains(a.status(), "stale") {
				t.Errorf("%s is still stale: %q", all[i], a.status())
			}
		}
	})
}

// A regeneration in the queue is one no longer once a visitor waits for it, because its stale window
// has ended.
func TestAwaitedRegenerationComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		m := &meter{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				time.Sleep(8 * time.Second)
			}
			cacheable(w, r, 0)
		})}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: 4 * time.Second, Jitter: -1, Budget: tb.budget(budget.Config{Renders: 1})}, m)
		get(h, "/unawaited")
		get(h, "/awaited")
		time.Sleep(time.Minute + time.Second)
		go get(h, "/long")
		synctest.Wait()
		for _, path := range []string{"/unawaited", "/awaited"} {
			if a := get(h, path); a.took > 0 || !strings.HasSuffix(a.status(), "detail=stale") {
				t.Errorf("%s: %q after %v", path, a.status(), a.took)
			}
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		if a := get(h, "/awaited"); a.Code != http.StatusOK || a.took == 0 {
			t.Errorf("a visitor got %d %q after %v", a.Code, a.status(), a.took)
		}
		time.Sleep(time.Minute)
		if want := []string{"/long", "/awaited", "/unawaited"}; !slices.Equal(m.asked()[2:], want) {
			t.Errorf("rendered %v, want %v", m.asked()[2:], want)
		}
	})
}

// Closing the cache ends the wait, and a fill that has ended uses nothing of the
// budget.
func TestCloseEndsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 20 * time.Second
		shared := tb.budget(budget.Config{Renders: 1})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Budget: shared}, site)
		var wg sync.WaitGroup
		for _, path := range paths(3) {
			wg.Go(func() {
				if a := get(h, path); a.Code != http.StatusOK || !strings.HasSuffix(a.status(), "detail=closing") {
					t.Errorf("%s: %d %q", path, a.Code, a.status())
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		site.delay = time.Second
		next := tb.node(tb.store("b"), nil).Handler(isr.Route{Budget: shared}, site)
		if a := get(next, "/"); a.Code != http.StatusOK || a.took != site.delay {
			t.Errorf("the budget is used up: %d %q after %v", a.Code, a.status(), a.took)
		}
	})
}

// unreachable is the response of a renderer that could not connect to its origin.
func unreachable(w http.ResponseWriter, r *http.Request, n int64) {
	isr.OriginUnreachable(w, errors.New("connection reset"))
	failing(w, r, n)
}

// The circuit breaker opens, lets one render through, stays open, and closes.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Budget: tb.budget(budget.Config{Origin: "http://origin", Failures: 3})}
		h := tb.node(tb.store("a"), nil).Handler(rt, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		site.answers(unreachable)
		for _, path := range paths(3) {
			if a := get(h, path); a.Code != 500 || !strings.HasSuffix(a.status(), "detail=render-failed") {
				t.Errorf("%s: %d %q", path, a.Code, a.status())
			}
		}
		asked := site.renders.Load()
		cold := get(h, "/cold")
		expectRefused(t, cold, "origin-failing", "5")
		if cold.took > 0 {
			t.Errorf("told so after %v", cold.took)
		}
		for range 3 { // the stale page, which is not asked for either
			expectStale(t, get(h, "/"), "stale")
			time.Sleep(time.Second)
		}
		for _, k := range []store.Key{page, {Text: "example.com/cold"}} {
			if lock := tb.record(k).Lock; lock != nil {
				t.Errorf("%s: a page that was never rendered has %+v", k, lock)
			}
		}
		if n := site.renders.Load() - asked; n != 0 {
			t.Errorf("%d renders while the breaker is open", n)
		}
		if a := get(h, "/", "Cookie: session=1"); a.Code != 500 || a.took != site.delay {
			t.Errorf("what passes through got %d after %v", a.Code, a.took)
		}

		time.Sleep(2 * time.Second)
		tried := crowd(5, []http.Handler{h}, "/00") // which failed before: as a probe, it counts
		expectRefused(t, get(h, "/cold"), "origin-failing", "5")
		if tried[0].Code != 500 || site.renders.Load() != asked+2 {
			t.Errorf("the probe got %d, after %d renders", tried[0].Code, site.renders.Load()-asked)
		}

		site.answers(cacheable)
		time.Sleep(5*time.Second + time.Millisecond)
		answers := inTurn(h, "/good", "/cold")
		expect(t, answers[0], "/good rendered "+fmt.Sprint(asked+3), "isr; fwd=miss; fwd-status=200; stored")
		expectRefused(t, answers[1], "origin-failing", "1")
		if a := get(h, "/cold"); a.Code != http.StatusOK {
			t.Errorf("after the probe: %d %q", a.Code, a.status())
		}
		log := tb.log.String()
		if strings.Count(log, "circuit breaker opens") != 1 || strings.Count(log, "circuit breaker closes") != 1 || !strings.Contains(log, "origin=http://origin") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// Each result of a render counts for or against the origin, or not.
func TestBreakerVerdicts(t *testing.T) {
	open := func(t *testing.T, a answer) bool {
		t.Helper()
		return strings.HasSuffix(a.status(), "detail=origin-failing")
	}
	// twice fails two pages, one less than opens the breaker.
	twice := func(h http.Handler, site *site, prefix string) {
		site.answers(unreachable)
		inTurn(h, prefix+"1", prefix+"2")
	}
	setup := func(t *testing.T) (*table, *faultyStore, *site, http.Handler) {
		t.Helper()
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		return tb, store, site, tb.node(store, nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Failures: 3})}, site)
	}
	t.Run("a refusal is an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, _, site, h := setup(t)
			twice(h, site, "/a")
			site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Set-Cookie", "a=b") })
			get(h, "/refused")
			twice(h, site, "/b")
			if open(t, get(h, "/c")) {
				t.Error("the breaker opened, though the origin answered in between")
			}
			if !open(t, get(h, "/d")) {
				t.Error("the breaker is closed after three failures in a row")
			}
		})
	})
	t.Run("one page counts once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, _, site, h := setup(t)
			site.answers(unreachable)
			for range 5 {
				time.Sleep(time.Minute)
				get(h, "/broken")
			}
			if other := get(h, "/other"); site.renders.Load() != 6 || open(t, other) {
				t.Errorf("%d renders, and then %q", site.renders.Load(), other.status())
			}
		})
	})
	t.Run("cut off is no failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, meta, site, h := setup(t)
			twice(h, site, "/a")
			site.delay = 5 * time.Second
			losses := 0
			meta.refresh = func() error {
				if losses++; losses == 3 {
					meta.refresh = nil
				}
				return store.ErrLeaseLost
			}
			get(h, "/lost") // three times, the lease is lost in mid-render
			if losses != 3 || open(t, get(h, "/b")) {
				t.Errorf("the breaker opened, after %d lost leases", losses)
			}
		})
	})
	t.Run("a key of another route is not rendered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			c := tb.node(tb.store("a"), nil)
			h := c.Handler(isr.Route{Name: "site", Budget: tb.budget(budget.Config{Failures: 3})}, site)
			for _, path := range paths(3) {
				if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com" + path + "#x=1"}); !errors.Is(err, store.ErrInvalidKey) {
					t.Errorf("%s: %v", path, err)
				}
			}
			if a := get(h, "/"); a.Code != http.StatusOK {
				t.Errorf("the breaker opened: %d %q", a.Code, a.status())
			}
		})
	})
	t.Run("the probe is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb, _, site, h := setup(t)
			twice(h, site, "/a")
			get(h, "/b")
			site.answers(cacheable)
			time.Sleep(6 * time.Second)
			tb.hold(store.Key{Text: "example.com/held"}, 10*time.Second)
			go get(h, "/held") // its turn is the probe's, and its lease another's
			time.Sleep(time.Millisecond)
			if a := get(h, "/c"); a.Code != http.StatusOK {
				t.Errorf("another cannot try the origin: %d %q", a.Code, a.status())
			}
		})
	})
}

// An error response counts against its page. Error responses of pages that have rendered before open
// the breaker; error responses of invented URLs never do.
func TestUnknownPagesDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: -1, Budget: tb.budget(budget.Config{Failures: 3})}, site)
		known := paths(3)
		inTurn(h, known...)
		time.Sleep(2 * time.Minute)
		site.answers(failing)
		for i := range 20 {
			if a := get(h, fmt.Sprint("/broken", i)); a.Code != 500 {
				t.Errorf("an unknown page got %d %q", a.Code, a.status())
			}
		}
		for _, path := range known {
			if a := get(h, path); a.Code != 500 {
				t.Errorf("%s: %d %q", path, a.Code, a.status())
			}
		}
		expectRefused(t, get(h, "/cold"), "origin-failing", "5")

		// A failed probe of an unknown page is inconclusive: another one follows.
		time.Sleep(6 * time.Second)
		get(h, "/broken-probe")
		site.answers(cacheable)
		if a := get(h, "/good"); a.Code != http.StatusOK {
			t.Errorf("the next probe got %d %q", a.Code, a.status())
		}
	})
}

// Timeouts always count, also for unknown pages.
func TestBreakerCountsTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = time.Hour
		c := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.RenderTimeout = 5 * time.Second })
		h := c.Handler(isr.Route{Budget: tb.budget(budget.Config{Failures: 3})}, site)
		inTurn(h, paths(3)...)
		expectRefused(t, get(h, "/cold"), "origin-failing", "5")
	})
}

// byAddress distinguishes clients by their addresses, which have no port here.
func byAddress(r *http.Request) netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddr(r.RemoteAddr), 32)
}

// getFrom is get from an address.
func getFrom(h http.Handler, client, path string) answer {
	r := newRequest(path)
	r.RemoteAddr = client
	a, _ := reported(h, r)
	return a
}

// Concurrent failures of one client count once, unless the origin cannot be connected to.
func TestFailuresOfOneClientCountOnce(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		open bool
	}{
		"broken off":  {errors.New("connection reset"), false},
		"not reached": {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				rt := isr.Route{Client: byAddress, Budget: tb.budget(budget.Config{Failures: 3})}
				h := tb.node(tb.store("a"), nil).Handler(rt, site)
				site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
					isr.OriginUnreachable(w, test.err)
					failing(w, r, n)
				})
				var wg sync.WaitGroup
				for _, path := range paths(8) {
					wg.Go(func() { getFrom(h, "192.0.2.1", path) })
				}
				wg.Wait()
				site.answers(cacheable)
				if a := getFrom(h, "192.0.2.2", "/"); (a.Code != http.StatusOK) != test.open {
					t.Errorf("another client got %d %q", a.Code, a.status())
				}
			})
		})
	}
}

// After the origin has recovered, a client that requests pages that hang, or fail, does not
// take every probe: one of another client closes the breaker soon.
func TestProbesAreShared(t *testing.T) {
	for name, probe := range map[string]string{"hangs": "/slow", "fails": "/broken"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				var down atomic.Bool
				origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case down.Load():
						unreachable(w, r, 0)
					case strings.HasPrefix(r.URL.Path, "/slow"):
						<-r.Context().Done()
					case strings.HasPrefix(r.URL.Path, "/broken"):
						failing(w, r, 0)
					default:
						cacheable(w, r, 0)
					}
				})
				rt := isr.Route{Client: byAddress, Budget: tb.budget(budget.Config{Failures: 3})}
				h := tb.node(tb.store("a"), nil).Handler(rt, origin)
				down.Store(true)
				for i := range 3 {
					getFrom(h, fmt.Sprintf("198.51.100.%d", i), fmt.Sprint("/", i))
				}
				expectRefused(t, getFrom(h, "198.51.100.9", "/cold"), "origin-failing", "5")
				down.Store(false)
				var wg sync.WaitGroup
				defer wg.Wait()
				for i := range 1500 { // for 15 s
					if i%50 == 49 {
						if a := getFrom(h, "198.51.100.9", "/good"); a.Code == http.StatusOK {
							t.Logf("the first page after %v", time.Duration(i)*10*time.Millisecond)
							return
						}
					}
					wg.Go(func() { getFrom(h, "192.0.2.1", fmt.Sprint(probe, i)) })
					time.Sleep(10 * time.Millisecond)
				}
				t.Error("a visitor got no page within 15 s")
			})
		})
	}
}

// One client uses all turns and the whole queue, except a reserve, as long as no other client
// comes. Then turns rotate among clients.
func TestQueueIsFairToClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, m := newTable(t), &meter{Handler: newSite()}
		rt := isr.Route{Client: byAddress, Budget: tb.budget(budget.Config{Renders: 4, Queue: 16})}
		h := tb.node(tb.store("a"), nil).Handler(rt, m)
		var wg sync.WaitGroup
		refused := 0
		visit := func(client, path string) {
			wg.Go(func() {
				if a := getFrom(h, client, path); a.Code != http.StatusOK {
					expectRefused(t, a, "origin-busy", "1")
					refused++
				}
			})
			synctest.Wait()
		}
		for _, path := range paths(10) {
			visit("192.0.2.1", path)
		}
		if n := m.now.Load(); n != 3 || refused != 0 {
			t.Errorf("one client has %d renders at once, and %d pages were refused; want 3 and none", n, refused)
		}
		visit("192.0.2.2", "/b1")
		visit("192.0.2.2", "/b2") // waits
		visit("192.0.2.2", "/b3") // waits
		visit("192.0.2.3", "/c1") // waits, behind all of these
		wg.Wait()
		asked := m.asked()
		if asked[3] != "/b1" || !slices.Contains(asked[4:8], "/c1") || !slices.Contains(asked[4:8], "/b2") || !slices.Contains(asked[4:12], "/b3") || refused != 0 {
			t.Errorf("rendered in the order %v", asked)
		}
	})
}

// In a full queue the page of a client that has less in it takes the place of the newest page of
// the client that has most.
func TestNewcomerTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, m := newTable(t), &meter{Handler: newSite()}
		rt := isr.Route{Stale: -1, Client: byAddress, Budget: tb.budget(budget.Config{Renders: 1, Queue: 4})}
		h := tb.node(tb.store("a"), nil).Handler(rt, m)
		refused := make(chan string, 10)
		var wg sync.WaitGroup
		visit := func(client, path string) {
			wg.Go(func() {
				if a := getFrom(h, client, path); a.Code != http.StatusOK {
					expectRefused(t, a, "origin-busy", "1")
					refused <- path
				}
			})
			synctest.Wait()
		}
		for _, path := range []string{"/00", "/01", "/02", "/03", "/b1", "/b2", "/b3", "/b4"} {
			getFrom(h, "192.0.2.3", path)
		}
		time.Sleep(time.Hour) // these are known pages, and no longer fresh
		for _, path := range paths(4) {
			visit("192.0.2.1", path)
		}
		for _, path := range []string{"/b1", "/b2", "/b3", "/b4"} {
			visit("192.0.2.2", path)
		}
		wg.Wait()
		close(refused)
		var got []string
		for path := range refused {
			got = append(got, path)
		}
		if want := []string{"/03", "/b3", "/b4"}; !slices.Equal(got, want) {
			t.Errorf("refused %v, want %v: each client has two places", got, want)
		}
	})
}

// A visitor who joins the flight of a client that has used its share is not delayed by
// that, and not refused.
func TestJoiningClientIsChargedForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, m := newTable(t), &meter{Handler: newSite()}
		site := newSite()
		site.delay = 10 * time.Second
		m.Handler = site
		rt := isr.Route{Client: byAddress, Budget: tb.budget(budget.Config{Renders: 4, Queue: 16})}
		h := tb.node(tb.store("a"), nil).Handler(rt, m)
		var wg sync.WaitGroup
		for _, path := range append(paths(5), "/wanted") { // the last waits
			wg.Go(func() { getFrom(h, "192.0.2.1", path) })
			synctest.Wait()
		}
		a := getFrom(h, "192.0.2.2", "/wanted")
		expect(t, a, "/wanted rendered 4", "isr; fwd=miss; fwd-status=200; stored; collapsed")
		if a.took != site.delay {
			t.Errorf("it took %v", a.took)
		}
		wg.Wait()
	})
}

// An attacker with 100 requests a second from one address, for broken, slow and unknown
// URLs, does not delay other visitors of healthy pages that were never requested before.
func TestAttackerDoesNotStarveOthers(t *testing.T) {
	first := func(t *testing.T, attacked bool) []time.Duration {
		tb := newTable(t)
		var n atomic.Int64
		origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wait := 100 * time.Millisecond
			if strings.HasPrefix(r.URL.Path, "/slow") {
				wait = time.Minute
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return
			}
			switch {
			case strings.HasPrefix(r.URL.Path, "/broken"):
				failing(w, r, n.Add(1))
			case strings.HasPrefix(r.URL.Path, "/unknown"):
				http.NotFound(w, r)
			default:
				cacheable(w, r, n.Add(1))
			}
		})
		rt := isr.Route{Client: byAddress, Budget: tb.budget(budget.Config{})}
		h := tb.node(tb.store("a"), nil).Handler(rt, origin)
		var wg sync.WaitGroup
		over := make(chan struct{})
		if attacked {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond):
					}
					wg.Go(func() { getFrom(h, "192.0.2.1", fmt.Sprintf("/%s%d", []string{"broken", "slow", "unknown"}[i%3], i)) })
				}
			})
		}
		time.Sleep(40 * time.Second) // renders time out by now
		took := make([]time.Duration, 100)
		for i := range took {
			a := getFrom(h, fmt.Sprintf("198.51.100.%d", i), fmt.Sprint("/healthy", i))
			took[i] = a.took
			if a.Code != http.StatusOK {
				took[i] = time.Hour
			}
			time.Sleep(time.Second)
		}
		close(over)
		wg.Wait()
		return took
	}
	var without, with []time.Duration
	synctest.Test(t, func(t *testing.T) { without = first(t, false) })
	synctest.Test(t, func(t *testing.T) { with = first(t, true) })
	slices.Sort(without)
	slices.Sort(with)
	if with[94] > 2*without[94] {
		t.Errorf("95 of 100 visitors are answered within %v, and without the attacker within %v", with[94], without[94])
	}
	t.Logf("of 100 visitors, the 50th, 95th and last: %v; without the attacker %v",
		[]time.Duration{with[49], with[94], with[99]}, []time.Duration{without[49], without[94], without[99]})
}

// A miss that queues for the origin for less than two seconds reads the table three times: at
// first, when its turn has come, and under its lease.
func TestQueuedMissReadsThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 100 * time.Millisecond
		meta := &readCounter{MetaStore: tb.store("a")}
		h := tb.node(meta, nil).Handler(isr.Route{Budget: tb.budget(budget.Config{Renders: 1})}, site)
		get(h, "/known") // so that it is known how long a render takes
		meta.reads.Store(0)
		all := paths(12)
		for i, a := range inTurn(h, all...) {
			if a.Code != http.StatusOK {
				t.Errorf("%s: %d", all[i], a.Code)
			}
		}
		if got, most := meta.reads.Load(), int64(3*len(all)); got > most {
			t.Errorf("%d misses read the table %d times, at most %d were expected", len(all), got, most)
		}
	})
}
