package isr_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A flight may last longer than the stale window of the page that it offered when it began.
// Package isrtest/simulator found each of these bugs.

// patient allows renders that take longer than the stale window.
func patient(cfg *isr.Config) { cfg.RenderTimeout = time.Minute }

// onLongFlight makes a page expire during a flight that began while it was stale, requests
// it again in the given second, and returns the answer.
func onLongFlight(t *testing.T, h http.Handler, site *site, second time.Duration) answer {
	t.Helper()
	get(h, "/") // fresh for a minute, stale for 20 seconds
	site.delay = 40 * time.Second
	began := time.Now()
	time.Sleep(time.Minute)
	if a := get(h, "/"); a.Body.String() != "/ rendered 1" || a.took > 0 {
		t.Fatalf("a stale page: %q after %v", a.Body, a.took)
	}
	time.Sleep(time.Until(began.Add(second * time.Second)))
	return get(h, "/")
}

func TestExpiredDuringItsFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), patient).Handler(isr.Route{Stale: 20 * time.Second, Jitter: -1}, site)
		expect(t, onLongFlight(t, h, site, 90), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; collapsed")
	})
}

// A losingStore returns ErrLeaseLost after a number of successful refreshes.
type losingStore struct {
	store.MetaStore
	good int
}

func (s *losingStore) Refresh(ctx context.Context, l store.Lease) error {
	if s.good--; s.good == -1 {
		return store.ErrLeaseLost
	}
	return s.MetaStore.Refresh(ctx, l)
}

func TestExpiredBeforeItsFlightHadToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &losingStore{MetaStore: tb.store("a"), good: 7}
		h := tb.node(store, patient).Handler(isr.Route{Stale: 20 * time.Second, Jitter: -1}, site)
		// The flight loses its lease in second 87, and finds its own row.
		a := onLongFlight(t, h, site, 85)
		expect(t, a, "/ rendered 3", "isr; fwd=stale; fwd-status=200; stored")
	})
}

// A lateBodies delays opening a body.
type lateBodies struct{ store.BodyStore }

func (s lateBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	time.Sleep(10 * time.Second)
	return s.BodyStore.Open(ctx, key)
}

func TestExpiredBeforeItIsServedToAJoiner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		route := isr.Route{Stale: -1, Jitter: -1}
		get(tb.node(tb.store("a"), nil).Handler(route, site), "/")
		cold, err := isr.New(tb.store("b"), lateBodies{tb.bodies}, isr.Config{StoreTimeout: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cold.Close(t.Context()) }()
		h := cold.Handler(route, site)
		time.Sleep(55 * time.Second)
		go get(h, "/") // finds it fresh, and has it in second 65
		time.Sleep(7 * time.Second)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// A dawdlingStore delays recording the end of a request.
type dawdlingStore struct {
	store.MetaStore
	delay time.Duration
}

func (s *dawdlingStore) EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error {
	time.Sleep(s.delay)
	return s.MetaStore.EndRequest(ctx, l, end)
}

// The fallback of a flight is judged again for requests that joined later: the process may
// have been frozen between finding it and serving it.
func TestExpiredBeforeItsFlightEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &dawdlingStore{MetaStore: tb.store("a"), delay: 30 * time.Second}
		c := tb.node(store, nil)
		h := c.Handler(isr.Route{Name: "site", Stale: 20 * time.Second, Jitter: -1}, site)
		get(h, "/")
		began := time.Now()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })
		time.Sleep(70 * time.Second) // stale
		done := make(chan error)
		go func() {
			_, err := c.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
			done <- err
		}()
		time.Sleep(time.Until(began.Add(90 * time.Second))) // expired
		if a := get(h, "/"); a.Code == http.StatusOK {
			t.Errorf("got %d %q, %q, ten seconds after its stale window", a.Code, a.Body, a.status())
		}
		if err := <-done; err == nil {
			t.Error("a regeneration went well whose render failed")
		}
	})
}
