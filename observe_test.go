package isr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/dunglas/httpsfv"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// expectRender checks a render.
func expectRender(t *testing.T, o *noted, trigger, outcome, reason string, status int) {
	t.Helper()
	if o.Trigger != trigger || o.Outcome != outcome || o.Reason != reason || o.Status != status {
		t.Errorf("a render: trigger %q, outcome %q, reason %q, status %d; want %q, %q, %q, %d",
			o.Trigger, o.Outcome, o.Reason, o.Status, trigger, outcome, reason, status)
	}
}

type visitorKey struct{}

// TestObserveRenders: a miss and a stale page are rendered by operations that belong together,
// and whose context reaches the renderer; a hit is no operation.
func TestObserveRenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		var atRenderer *noted
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			atRenderer, _ = r.Context().Value(notedKey{}).(*noted)
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), func(cfg *isr.Config) { seen.observe(cfg); cfg.Poll = -1 })
		h := c.Handler(isr.Route{Name: "pages", Label: "/{page}"}, site)
		visit := func(name string) {
			r := newRequest("/")
			h.ServeHTTP(newDiscard(), r.WithContext(context.WithValue(r.Context(), visitorKey{}, name)))
			synctest.Wait()
		}

		visit("first")
		table, bodies := seen.calls(isr.OperationTable), seen.calls(isr.OperationBodies)
		if want := []string{"read ok", "covering ok"}; !slices.Contains(table, "read ok") || !slices.Contains(table, "acquire ok") || !slices.Contains(table, "publish ok") {
			t.Errorf("calls of the table: %q, want %q among them", table, want)
		}
		if !slices.Contains(bodies, "put ok") {
			t.Errorf("calls of the bodies: %q", bodies)
		}
		for _, o := range seen.operations {
			if o.Kind != isr.OperationFlight && o.parent == nil && o.Name != "put" { // of codings, in the background
				t.Errorf("%s %s belongs to no operation", o.Kind, o.Name)
			}
		}
		render := seen.only(t, isr.OperationRender)
		expectRender(t, render, "miss", "published", "", http.StatusOK)
		if render.Route != "/{page}" || render.Key != keyOf("/") || render.Bytes != int64(len("/ rendered 1")) || render.Took != time.Second || render.Err != nil {
			t.Errorf("the render: %+v", render)
		}
		if render.Cause.Value(visitorKey{}) != "first" || render.parent.Kind != isr.OperationFlight || render.parent.Outcome != "rendered" {
			t.Errorf("the render is caused by %v, and part of %+v", render.Cause, render.parent)
		}
		if atRenderer != render {
			t.Errorf("the renderer got the context of %+v", atRenderer)
		}
		if got, want := seen.reasons(isr.EventLease), []string{"acquired", "released"}; !slices.Equal(got, want) {
			t.Errorf("leases: %q, want %q", got, want)
		}

		seen.clear()
		visit("second")
		if n := len(seen.operations) + len(seen.events); n > 0 {
			t.Errorf("a hit: %d operations and events", n)
		}

		time.Sleep(time.Minute)
		visit("third")
		time.Sleep(2 * time.Second)
		render = seen.only(t, isr.OperationRender)
		expectRender(t, render, "stale", "published", "", http.StatusOK)
		if render.Cause.Value(visitorKey{}) != "third" || render.Cause.Err() != nil {
			t.Errorf("the render is caused by %v", render.Cause)
		}

		if _, err := c.Regenerate(context.WithValue(t.Context(), visitorKey{}, "operator"), keyOf("/")); err != nil {
			t.Fatal(err)
		}
		render = seen.only(t, isr.OperationRender)
		expectRender(t, render, "command", "published", "", http.StatusOK)
		if render.Cause.Value(visitorKey{}) != "operator" {
			t.Errorf("the render is caused by %v", render.Cause)
		}
	})
}

// TestObserveCollapse: requests that wait for one render join its flight.
func TestObserveCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		h := tb.node(tb.store("a"), seen.observe).Handler(isr.Route{}, site)
		crowd(10, []http.Handler{h}, "/")
		if len(seen.joined) != 9 || seen.strangers > 0 {
			t.Errorf("%d requests joined, and %d something else", len(seen.joined), seen.strangers)
		}
		flight := seen.only(t, isr.OperationFlight)
		for _, o := range seen.joined {
			if o != flight {
				t.Errorf("a request joined %+v", o)
			}
		}
	})
}

// TestObserveOutcomes: how a render ends, and why its response is not stored.
func TestObserveOutcomes(t *testing.T) {
	// A proxy may report its interrupted request before the render has ended.
	interrupted := func(w http.ResponseWriter) {
		isr.OriginUnreachable(w, errRefused)
		time.Sleep(time.Minute)
	}
	answers := map[string]struct {
		answer    func(http.ResponseWriter)
		outcome   string
		reason    string
		status    int
		notStored bool
	}{
		"private":  {func(w http.ResponseWriter) { w.Header().Set("Cache-Control", "private"); fmt.Fprint(w, "x") }, "refused", "private", 200, true},
		"negative": {func(w http.ResponseWriter) { w.Header().Set("Cache-Control", "max-age=60"); w.WriteHeader(404) }, "unpublished", "negative", 404, true},
		"status":   {func(w http.ResponseWriter) { w.WriteHeader(500) }, "failed", "status", 500, false},
		"panic":    {func(http.ResponseWriter) { panic("mistake") }, "failed", "panic", 0, false},
		"reject": {func(w http.ResponseWriter) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "Fatal error")
		}, "rejected", "rejected", 200, false},
		"unreachable": {func(w http.ResponseWriter) { isr.OriginUnreachable(w, errRefused); w.WriteHeader(502) }, "failed", "unreachable", 502, false},
		"truncated":   {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "10"); fmt.Fprint(w, "x") }, "failed", "truncated", 200, false},
		"timeout":     {func(http.ResponseWriter) { time.Sleep(time.Minute) }, "failed", "timeout", 0, false},
		"interrupted": {interrupted, "failed", "timeout", 0, false},
	}
	for name, want := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site, seen := newTable(t), newSite(), new(notebook)
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { want.answer(w) })
				h := tb.node(tb.store("a"), seen.observe).Handler(isr.Route{Revalidate: time.Minute, Reject: isr.Reject{With: []string{"Fatal error"}}}, site)
				get(h, "/")
				time.Sleep(2 * time.Minute) // until the renderer returns
				render := seen.take(t, isr.OperationRender)[0]
				expectRender(t, render, "miss", want.outcome, want.reason, want.status)
				if failed := want.outcome == "failed" || want.outcome == "rejected"; (render.Err != nil) != failed {
					t.Errorf("the error is %v", render.Err)
				}
				if got := seen.reasons(isr.EventNotStored); want.notStored != slices.Equal(got, []string{want.reason}) || !want.notStored && len(got) > 0 {
					t.Errorf("not stored: %q", got)
				}
			})
		})
	}
}

// TestObserveValidation: a page that the origin validates, and one that is refreshed early.
func TestObserveValidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Etag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			cacheable(w, r, n)
		})
		h := tb.node(tb.store("a"), func(cfg *isr.Config) {
			seen.observe(cfg)
			cfg.Random = func() uint64 { return 0 } // every draw is for an early refresh
		}).Handler(isr.Route{EarlyRefresh: 1}, site)
		get(h, "/")
		time.Sleep(time.Minute)
		seen.clear()
		get(h, "/")
		time.Sleep(2 * time.Second)
		expectRender(t, seen.only(t, isr.OperationRender), "stale", "unchanged", "", http.StatusNotModified)
		time.Sleep(40 * time.Second)
		get(h, "/")
		time.Sleep(2 * time.Second)
		expectRender(t, seen.only(t, isr.OperationRender), "early", "unchanged", "", http.StatusNotModified)
	})
}

// TestObserveLease: a process that waits for the lease of another one, and one that takes it
// over after a crash.
func TestObserveLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		site.delay = 3 * time.Second
		first := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		second := tb.node(tb.store("b"), seen.observe).Handler(isr.Route{}, site)
		var rendering sync.WaitGroup
		rendering.Go(func() { get(first, "/") })
		time.Sleep(time.Second)
		_, report := reported(second, newRequest("/"))
		rendering.Wait()
		if got, want := seen.reasons(isr.EventLease), []string{"busy"}; !slices.Equal(got, want) {
			t.Errorf("leases: %q, want %q", got, want)
		}
		wait := seen.only(t, isr.OperationLease)
		if wait.Outcome != "ok" || wait.lasted < 2*time.Second || wait.Key != keyOf("/") {
			t.Errorf("the wait: %+v", wait)
		}
		if report.LeaseWait != wait.lasted || report.Render != 0 || !report.Collapsed || !report.Stored {
			t.Errorf("the report: %+v", report)
		}

		seen.clear()
		if _, err := tb.store("crashed").Acquire(t.Context(), store.HashedPartition(keyOf("/crash")), 10*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		_, report = reported(second, newRequest("/crash"))
		if got, want := seen.reasons(isr.EventLease), []string{"busy", "taken-over", "released"}; !slices.Equal(got, want) {
			t.Errorf("leases after a crash: %q, want %q", got, want)
		}
		wait = seen.only(t, isr.OperationLease)
		if wait.Outcome != "ok" || report.LeaseWait != wait.lasted || report.Render != site.delay {
			t.Errorf("the wait: %+v, the report: %+v", wait, report)
		}
	})
}

// TestObserveLostLease: another process has taken the lease over while this one rendered.
func TestObserveLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		site.delay = 5 * time.Second
		c := tb.node(tb.store("a"), seen.observe)
		h := c.Handler(isr.Route{}, site)
		var rendering sync.WaitGroup
		rendering.Go(func() { get(h, "/") })
		time.Sleep(time.Second)
		other := tb.store("b")
		rec, err := other.Read(t.Context(), store.HashedPartition(keyOf("/")))
		if err != nil {
			t.Fatal(err)
		}
		if err := other.BreakLease(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		rendering.Wait()
		renders := seen.take(t, isr.OperationRender)
		expectRender(t, renders[0], "miss", "lost", "", 0) // the heartbeat has found it before the answer
		if got := seen.reasons(isr.EventLease); len(got) < 2 || got[0] != "acquired" || got[1] != "lost" {
			t.Errorf("leases: %q", got)
		}
	})
}

// TestObserveQueue: a page that waits for its turn at the origin.
func TestObserveQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		c := tb.node(tb.store("a"), seen.observe)
		h := c.Handler(isr.Route{Budget: oneTurn()}, site)
		var visitors sync.WaitGroup
		visitors.Go(func() { get(h, "/1") })
		time.Sleep(100 * time.Millisecond)
		visitors.Go(func() { get(h, "/2") })
		time.Sleep(100 * time.Millisecond)
		if s := c.Stats(); s.Renders != 1 || s.Queued != 1 || s.Flights != 2 || s.LeasesHeld != 1 {
			t.Errorf("while one renders and one waits: %+v", s)
		}
		visitors.Wait()
		wait := seen.only(t, isr.OperationQueue)
		if wait.Outcome != "ok" || wait.Key != keyOf("/2") || wait.lasted < 800*time.Millisecond || wait.lasted > 2*time.Second {
			t.Errorf("the wait: %+v", wait)
		}

		visitors.Go(func() { get(h, "/3") })
		time.Sleep(100 * time.Millisecond)
		impatient := tb.node(tb.store("b"), func(cfg *isr.Config) { seen.observe(cfg); cfg.Wait = 200 * time.Millisecond }).
			Handler(isr.Route{Budget: budget.New(budget.Config{Renders: 1, Queue: 4})}, site)
		visitors.Go(func() { get(impatient, "/4") })
		time.Sleep(100 * time.Millisecond)
		get(impatient, "/5")
		visitors.Wait()
		if wait := seen.only(t, isr.OperationQueue); wait.Outcome != "timeout" || wait.Key != keyOf("/5") {
			t.Errorf("the wait of an impatient page: %+v", wait)
		}
	})
}

// TestObserveOutage: while the store is down, pages are rendered and not stored.
func TestObserveOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		broken := &brokenStore{MetaStore: tb.store("a")}
		c := tb.node(broken, seen.observe)
		h := c.Handler(isr.Route{}, site)
		get(h, "/")
		seen.clear()
		broken.fails.Store(true)
		_, report := reported(h, newRequest("/new"))
		if report.Detail != "store-error" || report.Stored || report.Render != time.Second {
			t.Errorf("the report: %+v", report)
		}
		if got := seen.calls(isr.OperationTable); !slices.Contains(got, "read error") {
			t.Errorf("calls of the table: %q", got)
		}
		expectRender(t, seen.only(t, isr.OperationRender), "unstored", "unpublished", "store-error", http.StatusOK)
		if got := seen.reasons(isr.EventNotStored); !slices.Equal(got, []string{"store-error"}) {
			t.Errorf("not stored: %q", got)
		}
		get(h, "/other")
		get(h, "/third")
		broken.log.Store(true)
		time.Sleep(3 * time.Second)
		if s := c.Stats(); !slices.Equal(s.StoresDown, []string{"table"}) || s.Unpublished == 0 || s.PollLag < 3*time.Second {
			t.Errorf("during the outage: %+v", s)
		}
		if got := seen.reasons(isr.EventPoll); !slices.Contains(got, "error") {
			t.Errorf("polls: %q", got)
		}
	})
}

// TestObservePurges: a purge, its effect in another process, and the render that follows.
func TestObservePurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, here, there := newTable(t), newSite(), new(notebook), new(notebook)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Tag", "news")
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), here.observe)
		h := c.Handler(isr.Route{}, site)
		other := tb.node(tb.store("b"), there.observe).Handler(isr.Route{}, site)
		get(h, "/")
		get(other, "/")
		time.Sleep(time.Second)
		here.clear()
		there.clear()
		purgeTag(t, c, "news")
		if n := c.Stats().PurgeMarks; n != 1 {
			t.Errorf("%d purge marks, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if e := only(t, here, isr.EventPurge); e.Reason != "soft" || e.Target != "tag" {
			t.Errorf("the purge: %+v", e)
		}
		if got := here.reasons(isr.EventApplied); len(got) > 0 {
			t.Errorf("%d of its own changes were applied", len(got))
		}
		if e := only(t, there, isr.EventApplied); e.Took <= 0 || e.Took > 2*time.Second {
			t.Errorf("the change was applied after %v", e.Took)
		}
		if polls := there.reasons(isr.EventPoll); len(polls) < 4 || slices.Contains(polls, "error") {
			t.Errorf("polls: %q", polls)
		}
		get(other, "/")
		time.Sleep(2 * time.Second)
		expectRender(t, there.only(t, isr.OperationRender), "purge", "published", "", http.StatusOK)

		there.clear()
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(keyOf("/"))}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if e := only(t, there, isr.EventEvicted); e.Reason != "reloaded" || e.Bytes < 1000 {
			t.Errorf("the eviction: %+v", e)
		}
		get(other, "/")
		expectRender(t, there.only(t, isr.OperationRender), "purge", "published", "", http.StatusOK)
	})
}

// TestObserveEvictions: pages that make room for others.
func TestObserveEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = w.Write(bytes.Repeat([]byte{byte(n)}, 100<<10))
		})
		c := tb.node(tb.store("a"), func(cfg *isr.Config) { seen.observe(cfg); cfg.Memory = 1 << 20 })
		h := c.Handler(isr.Route{}, site)
		for i := range 30 {
			get(h, fmt.Sprint("/", i))
		}
		time.Sleep(time.Second)
		s := c.Stats()
		if s.Memory.Limit < 900<<10 || s.Memory.Limit > 1<<20 || s.Memory.Bytes < 500<<10 || s.Memory.Bytes > s.Memory.Limit || s.Memory.Entries < 5 || s.Memory.Entries > 10 {
			t.Errorf("memory: %+v", s.Memory)
		}
		evicted := seen.reasons(isr.EventEvicted)
		if len(evicted) != 30-s.Memory.Entries || strings.Trim(strings.Join(evicted, ""), "size") != "" {
			t.Errorf("%d pages are in memory, evicted: %q", s.Memory.Entries, evicted)
		}
		for _, e := range seen.events {
			if e.Kind == isr.EventEvicted && (e.Bytes < 100<<10 || e.Bytes > 110<<10) {
				t.Errorf("evicted: %+v", e)
			}
		}
	})
}

// TestHolding: the leases of a process, while it renders.
func TestHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "pages"}, site)
		var visitors sync.WaitGroup
		began := time.Now()
		visitors.Go(func() { get(h, "/b") })
		time.Sleep(100 * time.Millisecond)
		visitors.Go(func() { get(h, "/a") })
		time.Sleep(100 * time.Millisecond)
		got := c.Holding()
		if len(got) != 2 || got[0].Key != keyOf("/b") || got[0].Route != "pages" || got[0].Since.Before(began) || got[0].Since.Sub(began) > 50*time.Millisecond || got[1].Key != keyOf("/a") {
			t.Errorf("holding %+v", got)
		}
		if s := c.Stats(); s.LeasesHeld != 2 || s.Renders != 2 || s.Flights != 2 || s.Queued != 0 {
			t.Errorf("%+v", s)
		}
		visitors.Wait()
		if got, s := c.Holding(), c.Stats(); len(got) > 0 || s.LeasesHeld+s.Renders+s.Flights+s.Queued+s.NegativeEntries+s.Unpublished > 0 || s.Memory.Entries != 2 || s.PollLag > time.Second || len(s.StoresDown) > 0 {
			t.Errorf("afterwards: %+v, %+v", got, s)
		}
	})
}

// TestOutcomeOf: the words for what a store has answered.
func TestOutcomeOf(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	throttled := &types.ProvisionedThroughputExceededException{}
	for _, call := range []struct {
		ctx  context.Context //nolint:containedctx // of the call
		err  error
		want string
	}{
		{t.Context(), nil, "ok"},
		{canceled, nil, "ok"},
		{t.Context(), &store.HeldError{}, "held"},
		{t.Context(), store.ErrMoved, "moved"},
		{t.Context(), store.ErrLeaseLost, "lost"},
		{canceled, store.ErrLeaseLost, "lost"},
		{t.Context(), store.ErrDenied, "denied"},
		{t.Context(), store.ErrNotFound, "not-found"},
		{t.Context(), store.ErrNotQuarantined, "not-found"},
		{t.Context(), store.ErrPinned, "refused"},
		{t.Context(), &store.RequestError{Err: store.ErrRequestCompleted}, "refused"},
		{t.Context(), throttled, "throttled"},
		{late, throttled, "throttled"},
		{canceled, throttled, "canceled"},
		{late, errors.New("deadline"), "timeout"},
		{t.Context(), context.DeadlineExceeded, "timeout"},
		{t.Context(), errors.New("connection refused"), "error"},
	} {
		err := call.err
		if err != nil {
			err = fmt.Errorf("calling the store: %w", err)
		}
		if got := isr.OutcomeOf(call.ctx, err); got != call.want {
			t.Errorf("%v: %q, want %q", err, got, call.want)
		}
	}
}

// A ledger is the observer of nodes that have no other: each operation ends once.
type ledger struct{ operations atomic.Int64 }

func (l *ledger) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	l.operations.Add(1)
	var ended atomic.Bool
	return ctx, func(r isr.Result) {
		if ended.Swap(true) || r.Outcome == "" {
			panic(fmt.Sprintf("%s %s has ended twice, or without an outcome: %+v", op.Kind, op.Name, r))
		}
		l.operations.Add(-1)
	}
}

func (l *ledger) Join(work, request context.Context) {
	if work == nil || request == nil {
		panic("a join without a context")
	}
}

func (l *ledger) Note(e isr.Event) {
	if e.Kind == "" || e.Reason == "" && e.Kind != isr.EventApplied && e.Kind != isr.EventCollected {
		panic(fmt.Sprintf("an event without a kind or reason: %+v", e))
	}
}

// A notebook is an observer that keeps what it is told. Its operations are in the order in which
// they began.
type notebook struct {
	mu         sync.Mutex
	operations []*noted // guarded by mu
	events     []isr.Event
	joined     []*noted // for each request that joined, what it joined
	strangers  int      // joins of work that is no operation
}

// A noted operation has its result once it has ended.
type noted struct {
	isr.Operation
	isr.Result
	parent *noted
	lasted time.Duration // -1 until it has ended
}

type notedKey struct{}

func (n *notebook) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	parent, _ := ctx.Value(notedKey{}).(*noted)
	o := &noted{Operation: op, parent: parent, lasted: -1}
	n.operations = append(n.operations, o)
	began := time.Now()
	return context.WithValue(ctx, notedKey{}, o), func(r isr.Result) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if o.lasted >= 0 {
			panic(fmt.Sprintf("%s %s has ended twice", o.Kind, o.Name))
		}
		o.Result, o.lasted = r, time.Since(began)
	}
}

func (n *notebook) Join(work, _ context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o, ok := work.Value(notedKey{}).(*noted); ok {
		n.joined = append(n.joined, o)
		return
	}
	n.strangers++
}

func (n *notebook) Note(e isr.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

// take returns the operations of a kind that have ended, and forgets all. The test must be in a
// bubble of synctest.
func (n *notebook) take(t *testing.T, kind isr.OperationKind) (of []*noted) {
	t.Helper()
	synctest.Wait() // a poll of the log may have begun at this very moment
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.operations {
		if o.lasted < 0 {
			t.Errorf("%s %s has not ended", o.Kind, o.Name)
		}
		if o.Kind == kind {
			of = append(of, o)
		}
	}
	n.operations = nil
	return of
}

// only returns the only operation of a kind, and forgets all.
func (n *notebook) only(t *testing.T, kind isr.OperationKind) *noted {
	t.Helper()
	of := n.take(t, kind)
	if len(of) != 1 {
		t.Fatalf("%d operations %q, want 1", len(of), kind)
	}
	return of[0]
}

// reasons returns the reasons of the events of a kind.
func (n *notebook) reasons(kind isr.EventKind) (of []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Kind == kind {
			of = append(of, e.Reason)
		}
	}
	return of
}

// calls returns the names and the outcomes of the store calls among operations.
func (n *notebook) calls(kind isr.OperationKind) (of []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.operations {
		if o.Kind == kind {
			of = append(of, o.Name+" "+o.Outcome)
		}
	}
	return of
}

func (n *notebook) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.operations, n.events, n.joined = nil, nil, nil
}

func (n *notebook) observe(cfg *isr.Config) { cfg.Observer = n }

// only returns the only event of a kind.
func only(t *testing.T, n *notebook, kind isr.EventKind) (e isr.Event) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	of := slices.DeleteFunc(slices.Clone(n.events), func(e isr.Event) bool { return e.Kind != kind })
	if len(of) != 1 {
		t.Fatalf("%d events %q, want 1", len(of), kind)
	}
	return of[0]
}

// A reporter records a response and its report.
type reporter struct {
	*httptest.ResponseRecorder
	report isr.Report
	asked  bool
}

func (r *reporter) Report() *isr.Report {
	r.asked = true
	return &r.report
}

// A wrapper hides a reporter, as middleware does.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newRequest(path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func newDiscard() *discard { return &discard{header: make(http.Header)} }

// reported makes a request. It panics if the report of any request of these tests differs from
// its Cache-Status.
func reported(h http.Handler, r *http.Request) (answer, isr.Report) {
	w := &reporter{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	h.ServeHTTP(w, r)
	_, direct := h.(isr.DraftHandler)
	behind := !w.asked && !direct // another reporter, of telemetry
	if err := sameStatus(w.report, w.Header()["Cache-Status"]); err != nil && !behind {
		panic(fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
	}
	return answer{w.ResponseRecorder, time.Since(began)}, w.report
}

// sameStatus returns an error unless a report says what the last member of Cache-Status does.
func sameStatus(report isr.Report, lines []string) error {
	if len(lines) == 0 {
		if report.Detail == "canceled" || !report.Hit && report.Forward == "" && report.Detail == "" {
			return nil
		}
		return fmt.Errorf("the report %+v of a response without Cache-Status", report)
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return fmt.Errorf("the Cache-Status %q: %w", lines, err)
	}
	item, ok := list[len(list)-1].(httpsfv.Item)
	if !ok || item.Value != httpsfv.Token("isr") {
		return nil // not of this cache
	}
	said := isr.Report{}
	for _, name := range item.Params.Names() {
		v, _ := item.Params.Get(name)
		switch name {
		case "hit":
			said.Hit = v.(bool)
		case "fwd":
			said.Forward = string(v.(httpsfv.Token))
		case "fwd-status":
			said.ForwardStatus = int(v.(int64))
		case "stored":
			said.Stored = v.(bool)
		case "collapsed":
			said.Collapsed = v.(bool)
		case "detail":
			said.Detail = string(v.(httpsfv.Token))
		}
	}
	got := isr.Report{
		Hit: report.Hit, Forward: report.Forward, ForwardStatus: report.ForwardStatus,
		Stored: report.Stored, Collapsed: report.Collapsed, Detail: report.Detail,
	}
	if got != said {
		return fmt.Errorf("the report says %+v, and Cache-Status %q", got, lines)
	}
	return nil
}

// TestReport: what a report says besides Cache-Status, which reported compares for the requests
// of all tests.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/private"):
				w.Header().Set("Set-Cookie", "session=1")
			case strings.HasPrefix(r.URL.Path, "/error"):
				w.WriteHeader(http.StatusInternalServerError)
			case strings.HasPrefix(r.URL.Path, "/upstream"):
				w.Header().Set("Cache-Status", "inner; hit")
			}
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "pages", Query: []string{"q"}, Vary: []string{"Accept-Language"}, ObeyRequests: true}, site)
		post := newRequest("/posted")
		post.Method = http.MethodPost
		badHost := newRequest("/")
		badHost.Host = "a b"
		page := func(text string) store.Key { return store.Key{Text: "example.com" + text} }
		for _, step := range []struct {
			r       *http.Request
			want    string // of Cache-Status, without ttl
			key     store.Key
			age     time.Duration
			page    bool // it has a generation
			renders bool // it waited for a render
		}{
			{newRequest("/"), "fwd=miss fwd-status=200 stored", page("/"), time.Second, true, true},
			{newRequest("/"), "hit", page("/"), time.Second, true, false},
			{newRequest("/", "Accept-Language: de"), "fwd=miss fwd-status=200 stored", page("/#accept-language=de"), time.Second, true, true},
			{newRequest("/?q=1"), "fwd=miss fwd-status=200 stored", page("/?q=1"), time.Second, true, true},
			{newRequest("/?other=1"), "fwd=bypass fwd-status=200 detail=query", store.Key{}, 0, false, false},
			{newRequest("/", "Cookie: session=1"), "fwd=bypass fwd-status=200 detail=cookie", store.Key{}, 0, false, false},
			{post, "fwd=method fwd-status=200", store.Key{}, 0, false, false},
			{badHost, "detail=bad-request", store.Key{}, 0, false, false},
			{newRequest("/", "Cache-Control: no-cache"), "fwd=request fwd-status=200", page("/"), 0, false, false},
			{newRequest("/absent", "Cache-Control: only-if-cached"), "detail=only-if-cached", page("/absent"), 0, false, false},
			{newRequest("/", "Isr-Min-Seq: x"), "detail=bad-request", page("/"), 0, false, false},
			{newRequest("/private"), "fwd=miss fwd-status=200 detail=set-cookie", page("/private"), 0, false, true},
			{newRequest("/private"), "fwd=bypass fwd-status=200 detail=set-cookie", page("/private"), 0, false, false},
			{newRequest("/error"), "fwd=miss fwd-status=500 detail=render-failed", page("/error"), 0, false, true},
			{newRequest("/error"), "fwd=miss fwd-status=500 detail=back-off", page("/error"), 0, false, false},
			{newRequest("/upstream"), "fwd=miss fwd-status=200 stored", page("/upstream"), time.Second, true, true},
		} {
			got, report := reported(h, step.r)
			what := fmt.Sprintf("%s %s: %q, %+v", step.r.Method, step.r.URL, got.status(), report)
			if text := statusText(report); text != step.want {
				t.Errorf("%s: status %q, want %q", what, text, step.want)
			}
			if report.Route != "pages" || report.Key != step.key || (report.Generation != "") != step.page || report.Age != step.age {
				t.Errorf("%s: want key %v, a generation: %v, age %v", what, step.key, step.page, step.age)
			}
			wait := time.Duration(0)
			if step.renders {
				wait = site.delay
			}
			if report.Render != wait || report.LeaseWait != 0 {
				t.Errorf("%s: want a render of %v", what, wait)
			}
		}
	})
}

// statusText has the parameters of Cache-Status by a report.
func statusText(r isr.Report) string {
	var parts []string
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	add(r.Hit, "hit")
	add(r.Forward != "", "fwd="+r.Forward)
	add(r.ForwardStatus > 0, fmt.Sprint("fwd-status=", r.ForwardStatus))
	add(r.Stored, "stored")
	add(r.Collapsed, "collapsed")
	add(r.Detail != "", "detail="+r.Detail)
	return strings.Join(parts, " ")
}

// TestReportThroughMiddleware: a report is found behind writers that unwrap, and a draft has one.
func TestReportThroughMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Label: "/"}, site)
		for _, want := range []string{"fwd=miss fwd-status=200 stored", "hit"} {
			w := &reporter{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(wrapper{wrapper{w}}, newRequest("/"))
			if text := statusText(w.report); text != want || w.report.Route != "/" || w.report.Key != keyOf("/") {
				t.Errorf("the report %+v, want %q", w.report, want)
			}
		}
		_, report := reported(http.HandlerFunc(h.(isr.DraftHandler).ServeDraft), newRequest("/"))
		if text := statusText(report); text != "fwd=bypass fwd-status=200 detail=draft" || report.Route != "/" || report.Key != keyOf("/") {
			t.Errorf("the report of a draft: %+v", report)
		}
	})
}

// TestReportOfImpatientVisitor: a visitor who goes away before the answer.
func TestReportOfImpatientVisitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, path := range []string{"/", "/?bypass=1"} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, report := reported(h, newRequest(path).WithContext(ctx))
			cancel()
			if want := map[string]string{"/": "fwd=miss detail=canceled", "/?bypass=1": "fwd=bypass fwd-status=200 detail=query"}[path]; statusText(report) != want {
				t.Errorf("%s: the report %+v, want %q", path, report, want)
			}
		}
	})
}

// TestReportOfStream: the visitors of a page that is streamed while it is rendered.
func TestReportOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			cacheable(w, r, n)
			time.Sleep(time.Second)
			fmt.Fprint(w, " at last")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		var visitors sync.WaitGroup
		var reports [2]isr.Report
		for i := range reports {
			visitors.Go(func() { _, reports[i] = reported(h, newRequest("/")) })
			synctest.Wait()
		}
		visitors.Wait()
		for i, want := range []string{"fwd=miss fwd-status=200 stored", "fwd=miss fwd-status=200 stored collapsed"} {
			if r := reports[i]; statusText(r) != want || r.Render != 2*time.Second || r.Age != time.Second {
				t.Errorf("visitor %d: %+v, want %q", i, r, want)
			}
		}
	})
}

// The log has one line at level info for all renders of a minute, the last one when the cache is
// closed, and one at level debug for each.
func TestRendersAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		c := tb.node(tb.store("a"), func(cfg *isr.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(tb.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		h := c.Handler(isr.Route{Name: "site"}, site)
		count := func(text string) int { return strings.Count(tb.log.String(), text) }
		for _, path := range paths(5) {
			get(h, path)
		}
		if n, lines := count("level=INFO"), count("level=DEBUG msg=rendered key=example.com/"); n != 0 || lines != 5 {
			t.Errorf("%d lines at level info, and %d renders at level debug; want none and 5", n, lines)
		}
		time.Sleep(time.Minute + time.Second)
		if n := count(`level=INFO msg="rendered pages" rendered=5 validated=0 bytes=`); n != 1 {
			t.Errorf("%d lines sum up a minute", n)
		}
		time.Sleep(10 * time.Minute) // of which there is nothing to say
		site.delay = 2 * time.Second
		get(h, "/slow")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n, last := count("rendered pages"), count("rendered=1 validated=0 bytes="); n != 2 || last != 1 || count("slowest=2s slowest_key=example.com/slow") != 1 {
			t.Errorf("the log is\n%s", tb.log)
		}
	})
}
