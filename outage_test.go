package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

var errRefused = errors.New("connection refused")

// A brokenStore fails or hangs on demand.
type brokenStore struct {
	store.MetaStore
	fails atomic.Bool // every call fails
	hangs atomic.Bool // every call waits until its context ends
	log   atomic.Bool // Sequence and Changes fail
	delay atomic.Int64
	calls atomic.Int64
}

func (b *brokenStore) ask(ctx context.Context) error {
	b.calls.Add(1)
	time.Sleep(time.Duration(b.delay.Load()))
	if b.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if b.fails.Load() {
		return errRefused
	}
	return nil
}

func (b *brokenStore) Read(ctx context.Context, pk string) (store.Record, error) {
	if err := b.ask(ctx); err != nil {
		return store.Record{}, err
	}
	return b.MetaStore.Read(ctx, pk)
}

func (b *brokenStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	if err := b.ask(ctx); err != nil {
		return store.Record{}, err
	}
	return b.MetaStore.ReadSerializable(ctx, pk)
}

func (b *brokenStore) RequestRecord(ctx context.Context, pk, key string) (store.RequestRecord, bool, error) {
	if err := b.ask(ctx); err != nil {
		return store.RequestRecord{}, false, err
	}
	return b.MetaStore.RequestRecord(ctx, pk, key)
}

func (b *brokenStore) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	if err := b.ask(ctx); err != nil {
		return nil, err
	}
	return b.MetaStore.Acquire(ctx, pk, d, claim)
}

func (b *brokenStore) Release(ctx context.Context, l store.Lease) error {
	if err := b.ask(ctx); err != nil {
		return err
	}
	return b.MetaStore.Release(ctx, l)
}

func (b *brokenStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	if err := b.ask(ctx); err != nil {
		return store.Entry{}, err
	}
	return b.MetaStore.Publish(ctx, l, read, next, how)
}

func (b *brokenStore) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	if err := b.ask(ctx); err != nil {
		return store.Sequence{}, nil, err
	}
	if b.log.Load() {
		return store.Sequence{}, nil, errors.New("throughput exceeded")
	}
	return b.MetaStore.Changes(ctx, after)
}

func (b *brokenStore) Sequence(ctx context.Context) (store.Sequence, error) {
	if err := b.ask(ctx); err != nil {
		return store.Sequence{}, err
	}
	if b.log.Load() {
		return store.Sequence{}, errors.New("throughput exceeded")
	}
	return b.MetaStore.Sequence(ctx)
}

// A hangingBodies makes calls wait until their contexts end, on demand.
type hangingBodies struct {
	store.BodyStore
	hangs atomic.Bool
}

func (b *hangingBodies) ask(ctx context.Context) error {
	if b.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (b *hangingBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if err := b.ask(ctx); err != nil {
		return nil, 0, err
	}
	return b.BodyStore.Open(ctx, key)
}

func (b *hangingBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	if err := b.ask(ctx); err != nil {
		return store.BodyInfo{}, err
	}
	return b.BodyStore.Stat(ctx, key)
}

func (b *hangingBodies) Put(ctx context.Context, key string, body []byte) error {
	if err := b.ask(ctx); err != nil {
		return err
	}
	return b.BodyStore.Put(ctx, key, body)
}

func oneTurn() *budget.Budget { return budget.New(budget.Config{Renders: 1, Queue: 4}) }

// expectUnstored checks that a visitor got a rendering that is not stored.
func expectUnstored(t *testing.T, a answer, body string) {
	t.Helper()
	expect(t, a, body, "isr; ")
	if strings.Contains(a.status(), "stored") || !strings.Contains(a.status(), "detail=store-error") && !strings.Contains(a.status(), "detail=unpublished") {
		t.Errorf("status %q", a.status())
	}
}

// Whatever store call fails, a page is rendered once for all waiting requests, within the
// budget of the origin.
func TestStoreFailureCostsOneRender(t *testing.T) {
	for name, outage := range map[string]func(*brokenStore){
		"the log": func(b *brokenStore) {
			b.log.Store(true)
			time.Sleep(3 * time.Second) // beyond the staleness bound, so that renders read SEQ
		},
		"everything": func(b *brokenStore) { b.fails.Store(true) },
		"hanging":    func(b *brokenStore) { b.hangs.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				store := &brokenStore{MetaStore: tb.store("a")}
				h := tb.node(store, nil).Handler(isr.Route{Budget: oneTurn()}, site)
				time.Sleep(time.Second)
				outage(store)
				for _, a := range crowd(200, []http.Handler{h}, "/") {
					expectUnstored(t, a, "/ rendered 1")
					if a.took > site.delay+isr.DefaultStoreTimeout {
						t.Errorf("took %v", a.took)
					}
				}
				for range 20 { // one after the other
					a := get(h, "/")
					expectUnstored(t, a, "/ rendered 1")
					if a.took > 0 {
						t.Errorf("took %v", a.took)
					}
				}
				if n := site.renders.Load(); n != 1 {
					t.Errorf("%d renders, want 1", n)
				}
			})
		})
	}
}

// A failed read of SEQ releases the lease.
func TestStoreFailureReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		time.Sleep(time.Second)
		store.log.Store(true)
		time.Sleep(3 * time.Second)
		get(h, "/")
		if lock := tb.record(page).Lock; lock != nil {
			t.Errorf("the lease %+v was left behind", lock)
		}
	})
}

// An uncacheable response is not shared, and the refusal is remembered.
func TestStoreFailureOfAnUncacheablePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Set-Cookie", "id=1")
			fmt.Fprint(w, "for ", r.Header.Get("X-Visitor"))
		})
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		time.Sleep(time.Second)
		store.fails.Store(true)
		for range 3 {
			a := get(h, "/", "X-Visitor: me")
			expect(t, a, "for me", "isr; fwd=")
			if !strings.Contains(a.status(), "detail=set-cookie") {
				t.Errorf("status %q", a.status())
			}
		}
		if n := site.renders.Load(); n != 4 {
			t.Errorf("%d requests at the origin, want 4", n)
		}
	})
}

// If both the store and the origin fail, visitors get the failure, and the origin does not
// get a request for each of them.
func TestStoreAndOriginFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(failing)
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		time.Sleep(time.Second)
		store.fails.Store(true)
		for _, a := range crowd(50, []http.Handler{h}, "/") {
			if a.Code != 500 || a.Header().Get("Retry-After") == "" || a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %v", a.Code, a.Header())
			}
		}
		get(h, "/")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders, want 1", n)
		}
	})
}

// An outage writes two log lines, whatever the number of visitors. During the outage only the probe
// calls the store, and afterwards the cache works as before.
func TestStoreOutageOpensTheBreaker(t *testing.T) {
	for name, outage := range map[string]func(*brokenStore, bool){
		"failing": func(b *brokenStore, on bool) { b.fails.Store(on) },
		"hanging": func(b *brokenStore, on bool) { b.hangs.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				store := &brokenStore{MetaStore: tb.store("a")}
				c := tb.node(store, func(cfg *isr.Config) { cfg.Poll = -1 })
				h := c.Handler(isr.Route{}, site)
				outage(store, true)
				for i := range 3 {
					get(h, fmt.Sprint("/opens/", i))
				}
				time.Sleep(20 * time.Second) // calls that hang have timed out
				before := store.calls.Load()
				for i := range 100 {
					a := get(h, fmt.Sprint("/cold/", i))
					if a.Code != http.StatusOK || a.took != site.delay {
						t.Errorf("got %d after %v, want the page after the time of a render", a.Code, a.took)
					}
				}
				if n := store.calls.Load() - before; n > 20 {
					t.Errorf("the store was asked %d times in 100 seconds", n)
				}
				outage(store, false)
				time.Sleep(time.Minute)
				expect(t, get(h, "/"), fmt.Sprintf("/ rendered %d", site.renders.Load()), "isr; fwd=miss; fwd-status=200; stored")
				begins := strings.Count(tb.log.String(), "circuit breaker opens")
				ends := strings.Count(tb.log.String(), "circuit breaker closes")
				if begins != 1 || ends != 1 || !strings.Contains(tb.log.String(), "affected=100") {
					t.Errorf("%d lines of its beginning and %d of its end, want one of each:\n%s", begins, ends, tb.log)
				}
			})
		})
	}
}

// While the store is down, a stale page is served, with a detail, and not rendered.
func TestStoreOutageServesStalePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{Stale: time.Hour}, site)
		get(h, "/")
		store.fails.Store(true)
		time.Sleep(2 * time.Minute)
		for range 20 {
			a := get(h, "/")
			expect(t, a, "/ rendered 1", "isr; hit; ttl=-")
			if a.took > 0 {
				t.Errorf("took %v", a.took)
			}
			time.Sleep(time.Second)
		}
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders, want 1", n)
		}
	})
}

// A slow store makes no visitor wait for longer than StoreTimeout, and the page that was
// rendered for them is published, by one render.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{Budget: oneTurn()}, site)
		time.Sleep(time.Second)
		store.delay.Store(int64(2 * time.Second))
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expectUnstored(t, a, "/ rendered 1")
			if a.took > site.delay+isr.DefaultStoreTimeout {
				t.Errorf("took %v", a.took)
			}
		}
		time.Sleep(30 * time.Second)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
		e := tb.record(page).Entry
		if e == nil || e.RenderTime != site.delay || time.Since(e.GeneratedAt) < 30*time.Second {
			t.Errorf("published %+v", e)
		}
	})
}

// A page that was rendered without the store is not published if a purge was made since its
// render began, or another node has published since.
func TestSlowStoreAndPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		time.Sleep(time.Second)
		store.delay.Store(int64(2 * time.Second))
		expectUnstored(t, get(h, "/"), "/ rendered 1")
		tb.purge(page, 1)
		store.delay.Store(0)
		time.Sleep(30 * time.Second)
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=")
	})
}

// The visitors of a node that reaches the table and not the bucket get the page, and another
// node gets the lease.
func TestHangingBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		bodies := &hangingBodies{BodyStore: tb.bodies}
		cut := tb.nodeOn(tb.store("cut"), bodies, nil).Handler(isr.Route{}, site)
		bodies.hangs.Store(true)
		for _, a := range crowd(20, []http.Handler{cut}, "/") {
			// When the header is sent the page is being stored.
			expect(t, a, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
			if a.took > site.delay+isr.DefaultStoreTimeout {
				t.Errorf("took %v", a.took)
			}
		}
		if tb.record(page).Lock == nil {
			t.Fatal("the cut-off node does not hold the lease: nothing is tested")
		}
		healthy := tb.node(tb.store("healthy"), nil).Handler(isr.Route{}, site)
		a := get(healthy, "/")
		expect(t, a, "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		if a.took > 30*time.Second {
			t.Errorf("the lease was given up after %v", a.took)
		}
		// The fresh page of the table cannot be read here.
		a = get(cut, "/")
		expectUnstored(t, a, "/ rendered 3")
		if a.took > site.delay+isr.DefaultStoreTimeout {
			t.Errorf("took %v", a.took)
		}
	})
}

// A rollback that this node reads during an outage of the bucket removes its unpublished
// page.
func TestRollbackRemovesUnpublishedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := twoGenerations(t, tb, 1, nil)[0]
		site := newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprint(w, "unpublished")
		})
		store := &brokenStore{MetaStore: tb.store("b")}
		b := tb.node(store, func(cfg *isr.Config) { cfg.Memory = 8 << 20 }).Handler(withHistory, site)
		time.Sleep(time.Second)
		store.delay.Store(int64(isr.DefaultStoreTimeout + time.Millisecond))
		expectUnstored(t, get(b, "/"), "unpublished")
		store.delay.Store(0)
		if _, err := a.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * isr.DefaultPoll)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit; ttl=")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders", n)
		}
	})
}

// A deniedBodies denies access to all bodies, or to one, on demand.
type deniedBodies struct {
	store.BodyStore
	all atomic.Bool
	one atomic.Pointer[string] // its key
}

func (d *deniedBodies) check(key string) error {
	if one := d.one.Load(); d.all.Load() || one != nil && *one == key {
		return fmt.Errorf("%w: %s", store.ErrDenied, key)
	}
	return nil
}

func (d *deniedBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if err := d.check(key); err != nil {
		return nil, 0, err
	}
	return d.BodyStore.Open(ctx, key)
}

func (d *deniedBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	if err := d.check(key); err != nil {
		return store.BodyInfo{}, err
	}
	return d.BodyStore.Stat(ctx, key)
}

func (d *deniedBodies) Put(ctx context.Context, key string, body []byte) error {
	if err := d.check(key); err != nil {
		return err
	}
	return d.BodyStore.Put(ctx, key, body)
}

// If access to three bodies in a row is denied, the circuit breaker opens, as it does in an outage; a
// single denied body does not open it. Either way no stored page is replaced, and pins hold.
func TestDeniedBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
			fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
		})
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 2)
		for i := range 4 {
			get(a, fmt.Sprint("/", i))
		}
		pinned, err := a.Rollback(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		bodies := &deniedBodies{BodyStore: tb.bodies}
		b := tb.peerOn(bodies, "b", withHistory, site, nil)
		expectUnstored := func(path string) {
			t.Helper()
			if got := get(b, path); got.Code != http.StatusOK || strings.Contains(got.status(), "stored") && !strings.Contains(got.status(), "unpublished") {
				t.Errorf("%s: %d %q", path, got.Code, got.status())
			}
		}
		opened := func() bool { return strings.Contains(tb.log.String(), "circuit breaker opens") }

		bodies.one.Store(&pinned.BodyKey)
		for range 20 {
			expectUnstored("/")
			time.Sleep(6 * time.Second) // longer than what was rendered is served
		}
		if opened() {
			t.Error("one body that is denied counts as an outage")
		}
		expect(t, get(b, "/3"), "/3 rendered 6", "isr; hit")

		bodies.all.Store(true)
		for _, path := range []string{"/", "/0", "/1"} {
			expectUnstored(path)
		}
		if !opened() {
			t.Error("three bodies that are denied are no outage")
		}
		before := b.store.reads.Load()
		expectUnstored("/2")
		if n := b.store.reads.Load() - before; n != 0 {
			t.Errorf("the store was asked %d times while the breaker was open", n)
		}
		expect(t, get(b, "/3"), "/3 rendered 6", "isr; hit") // memory is served on

		bodies.one.Store(nil)
		bodies.all.Store(false)
		time.Sleep(20 * time.Second)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		expect(t, get(b, "/2"), "/2 rendered 5", "isr; hit")
		if after := a.entry(t); after.GenerationID != pinned.GenerationID || !after.PinnedUntil.Equal(store.Forever()) {
			t.Errorf("the pinned generation %s was replaced by %s", pinned.GenerationID, after.GenerationID)
		}
	})
}
