package simulator_test

import (
	"context"
	"time"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// withdrawalBugs break withdrawals.
func withdrawalBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a withdrawal is ignored", Meta: func(s store.MetaStore, _ store.BodyStore) store.MetaStore { return forgivingStore{s} }},
		{Name: "a withdrawal is not logged", Meta: func(s store.MetaStore, _ store.BodyStore) store.MetaStore { return secretStore{s} }},
	}
}

// A forgivingStore reports withdrawn entries as pages.
type forgivingStore struct{ store.MetaStore }

func (s forgivingStore) Read(ctx context.Context, pk string) (store.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	if e := rec.Entry; e != nil && e.Withdrawn {
		e.Withdrawn, e.Revalidate, e.Status = false, time.Hour, 200
	}
	return rec, err
}

func (s forgivingStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return s.Read(ctx, pk)
}

// A secretStore keeps withdrawals out of the log.
type secretStore struct{ store.MetaStore }

func (s secretStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	how.Reload = false
	return s.MetaStore.Publish(ctx, l, read, next, how)
}
