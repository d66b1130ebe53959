package admin_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

func TestReleaseOfHeldLease(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	if released, err := c.ReleaseLease(t.Context(), target("example.com/")); err != nil || released.Released {
		t.Errorf("a page without a lease: %+v, %v", released, err)
	}
	err := f.holding("example.com/", func() {
		released, err := c.ReleaseLease(t.Context(), target("example.com/"))
		if err != nil || !released.Released || released.Lease.State != admin.LeaseHeld || released.Lease.Owner != "node-a" {
			t.Errorf("released: %+v, %v", released, err)
		}
		if _, err := c.Regenerate(t.Context(), regenerate("example.com/")); err != nil {
			t.Errorf("the page cannot be regenerated at once: %v", err)
		}
	})
	if !errors.Is(err, store.ErrLeaseLost) && !errors.Is(err, store.ErrMoved) {
		t.Errorf("the former holder still publishes: %v", err)
	}
}

func TestReleaseOfBackOff(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	f.render = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	if _, err := c.Regenerate(t.Context(), regenerate("example.com/")); err == nil {
		t.Fatal("a page that fails is regenerated")
	}
	lease, err := c.Lease(t.Context(), target("example.com/"))
	if err != nil || lease.State != admin.LeaseBackOff || lease.Failures != 1 {
		t.Errorf("%+v, %v; want a back-off after one failure", lease, err)
	}
	released, err := c.ReleaseLease(t.Context(), target("example.com/"))
	if err != nil || !released.Released || released.Lease.State != admin.LeaseBackOff {
		t.Errorf("released: %+v, %v", released, err)
	}
	f.render = func(w http.ResponseWriter, _ *http.Request) { page(w, "well again") }
	if _, err := c.Regenerate(t.Context(), regenerate("example.com/")); err != nil {
		t.Errorf("after the back-off was ended: %v", err)
	}
}

// A lease that is acquired between read and release is not broken.
func TestReleaseDoesNotBreakTheNextLease(t *testing.T) {
	f := newFixture(t)
	var inner error
	err := f.holding("example.com/", func() {
		var wait sync.WaitGroup
		taken, end := make(chan struct{}), make(chan struct{})
		take := sync.OnceFunc(func() { close(taken) })
		f.store.meanwhile = func() {
			read, err := f.store.Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com/"}))
			if err := errors.Join(err, f.store.BreakLease(t.Context(), read)); err != nil {
				t.Error(err)
			}
			wait.Go(func() {
				defer take()
				inner = f.holding("example.com/", func() { take(); <-end })
			})
			<-taken
		}
		a := f.ask("POST", "/-/lease/release", `{"key":"example.com/"}`)
		if a.status != 409 || a.code != "changed_hands" {
			t.Errorf("%d %s", a.status, a.text)
		}
		close(end)
		wait.Wait()
	})
	if inner != nil {
		t.Errorf("the next lease was broken: %v", inner)
	}
	if err == nil {
		t.Error("the first lease was not")
	}
}
