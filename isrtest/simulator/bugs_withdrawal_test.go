package simulator_test

import (
	"context"
	"time"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// withdrawalBugs break what a withdrawal stands on.
func withdrawalBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a withdrawal is forgotten", Meta: func(s store.MetaStore, _ store.BodyStore) store.MetaStore { return forgivingStore{s} }},
		{Name: "no node is told of a withdrawal", Meta: func(s store.MetaStore, _ store.BodyStore) store.MetaStore { return secretStore{s} }},
	}
}

// A forgivingStore takes what was withdrawn for a page.
type forgivingStore struct{ store.MetaStore }

func (s forgivingStore) Read(ctx context.Context, pk string) (store.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	if e := rec.Entry; e != nil && e.Withdrawn {
		e.Withdrawn, e.Revalidate, e.Status = false, time.Hour, 200
	}
	return rec, err
}

// A secretStore leaves withdrawals out of the log.
type secretStore struct{ store.MetaStore }

func (s secretStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	how.Reload = false
	return s.MetaStore.Publish(ctx, l, read, next, how)
}
