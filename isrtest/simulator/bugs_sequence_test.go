package simulator_test

import (
	"context"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/isrtest/simulator"
)

// sequenceBugs are those of when things are read, and what generations are
// stamped with.
func sequenceBugs() []simulator.Bug {
	meta := func(wrap func(isr.MetaStore) isr.MetaStore) func(isr.MetaStore, isr.BodyStore) isr.MetaStore {
		return func(inner isr.MetaStore, _ isr.BodyStore) isr.MetaStore { return wrap(inner) }
	}
	stamp := func(alter func(read isr.Record, next *isr.Entry)) func(isr.MetaStore, isr.BodyStore) isr.MetaStore {
		return meta(func(inner isr.MetaStore) isr.MetaStore { return &stampingStore{MetaStore: inner, alter: alter} })
	}
	return []simulator.Bug{
		{Name: "SEQ is read before META", Meta: meta(func(inner isr.MetaStore) isr.MetaStore { return &earlyStore{MetaStore: inner} })},
		{Name: "SEQ is read after the render", Meta: meta(func(inner isr.MetaStore) isr.MetaStore { return lateStore{inner} })},
		{Name: "generated_at is not when rendering began", Meta: stamp(func(_ isr.Record, next *isr.Entry) {
			next.GeneratedAt = next.GeneratedAt.Add(5 * time.Second)
		})},
		{Name: "a generation keeps the etag of the one before", Meta: stamp(func(read isr.Record, next *isr.Entry) {
			if read.Entry != nil {
				next.ETag = read.Entry.ETag
			}
		})},
		{Name: "a generation keeps the body of the one before", Meta: stamp(func(read isr.Record, next *isr.Entry) {
			if read.Entry != nil {
				next.BodyKey = read.Entry.BodyKey
			}
		})},
		{Name: "purges of the page are not looked at", Meta: meta(func(inner isr.MetaStore) isr.MetaStore { return blindStore{inner} })},
	}
}

// An earlyStore reads the sequence before the record, and says later that this
// is it.
type earlyStore struct {
	isr.MetaStore
	mu  sync.Mutex
	seq isr.Sequence // guarded by mu
}

func (s *earlyStore) Read(ctx context.Context, pk string) (isr.Record, error) {
	seq, err := s.MetaStore.Sequence(ctx)
	if err != nil {
		return isr.Record{}, err
	}
	s.mu.Lock()
	s.seq = seq
	s.mu.Unlock()
	return s.MetaStore.Read(ctx, pk)
}

func (s *earlyStore) Sequence(context.Context) (isr.Sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq, nil
}

// A lateStore stamps a generation with the sequence of its publish.
type lateStore struct{ isr.MetaStore }

func (s lateStore) Publish(ctx context.Context, l isr.Lease, read isr.Record, next isr.Entry, how isr.Publishing) (isr.Entry, error) {
	seq, err := s.Sequence(ctx)
	if err != nil {
		return isr.Entry{}, err
	}
	next.PurgeSeq = seq.Seq
	return s.MetaStore.Publish(ctx, l, read, next, how)
}

// A stampingStore publishes something else than it was given.
type stampingStore struct {
	isr.MetaStore
	alter func(read isr.Record, next *isr.Entry)
}

func (s *stampingStore) Publish(ctx context.Context, l isr.Lease, read isr.Record, next isr.Entry, how isr.Publishing) (isr.Entry, error) {
	s.alter(read, &next)
	return s.MetaStore.Publish(ctx, l, read, next, how)
}

// A blindStore does not see that a page was purged.
type blindStore struct{ isr.MetaStore }

func (s blindStore) Read(ctx context.Context, pk string) (isr.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	rec.Cover = isr.Cover{}
	return rec, err
}
