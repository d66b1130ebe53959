package singleflight

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

type search struct {
	State
	name string
}

// A fleet is a group whose flights end when they are told to.
type fleet struct {
	*Group[*search]
	land chan struct{}
}

func newFleet() fleet {
	return fleet{New[*search](func() {}, func() {}), make(chan struct{})}
}

func (f fleet) join(k store.Key, name string) (*search, bool) {
	return f.Join(k, func() *search { return &search{name: name} }, func(*search) { <-f.land })
}

var pageA, pageB = store.Key{Text: "h/a"}, store.Key{Text: "h/b"}

// Requests for a key join one flight, which leaves the group before it is done.
func TestOneFlightOfAKey(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	g := New[*search](func() { began <- struct{}{} }, func() { ended <- struct{}{} })
	land := make(chan struct{})
	join := func() (*search, bool) {
		return g.Join(pageA, func() *search { return new(search) }, func(*search) { <-land })
	}
	first, leader := join()
	if !leader || len(began) != 1 {
		t.Fatal("the first request starts no flight")
	}
	if f, leader := join(); leader || f != first || g.Current(pageA) != first || g.Oldest(pageA) != first || g.Len() != 1 {
		t.Error("the second request does not join it")
	}
	if g.Current(pageB) != nil || g.Oldest(pageB) != nil {
		t.Error("another key has a flight")
	}
	close(land)
	<-first.Done()
	if g.Current(pageA) != nil || g.Oldest(pageA) != nil || g.Len() != 0 {
		t.Error("a flight that is done is in the group")
	}
	<-ended
}

// A flight that is joined no more learns of its page until it ends.
func TestFlightsLearn(t *testing.T) {
	g := newFleet()
	old, _ := g.join(pageA, "old")
	other, _ := g.join(pageB, "other")
	now := time.Now()
	g.Invalidate(pageA, now)
	next, leader := g.join(pageA, "next")
	if !leader || g.Oldest(pageA) != old || g.Current(pageA) != next {
		t.Fatal("a flight whose page was invalidated is joined")
	}
	g.Learn(pageA, store.PurgeState{Seq: 5, HardSeq: 3, At: now})
	g.Posted(pageA, 3)
	for _, f := range []*search{old, next} {
		if known := f.Known(store.PurgeState{Seq: 4}); known.Seq != 5 || known.HardSeq != 3 {
			t.Errorf("%s knows %+v", f.name, known)
		}
		if !f.PostedAlone(0, 0) || f.PostedAlone(0, 4) || !f.PostedAlone(4, 4) {
			t.Errorf("%s does not know which purges were posted", f.name)
		}
	}
	if other.Known(store.PurgeState{}) != (store.PurgeState{}) || other.InvalidatedAt() != nil || next.InvalidatedAt() != nil {
		t.Error("a flight has learned what is not about it")
	}
	if !old.InvalidatedSince(now.Add(-1)) || old.InvalidatedSince(now) || next.InvalidatedSince(now.Add(-1)) {
		t.Error("not only what was read before the page was invalidated is outdated")
	}
	g.Retire()
	if g.Current(pageA) != nil || g.Current(pageB) != nil || g.Len() != 3 {
		t.Error("retired flights are joined, or have ended")
	}
	n := 0
	g.Each(pageA, func(*search) { n++ })
	if n != 2 {
		t.Errorf("%d flights of the page", n)
	}
	close(g.land)
	if err := g.Wait(t.Context()); err != nil || g.Len() != 0 {
		t.Error(err)
	}
}

// A group that is shut begins no flight, and is waited for.
func TestShut(t *testing.T) {
	g := newFleet()
	f, _ := g.join(pageA, "last")
	g.Shut()
	if joined, leader := g.join(pageA, "more"); joined != f || leader {
		t.Error("the flight in progress cannot be joined")
	}
	if f, leader := g.join(pageB, "more"); f != nil || leader {
		t.Error("a flight has begun")
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := g.Wait(ctx); !errors.Is(err, gone) {
		t.Errorf("waiting in vain: %v", err)
	}
	close(g.land)
	if err := g.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
