package isr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
