package simulator_test

import (
	"context"
	"sync"
	"time"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// sequenceBugs break the order of reads, and the values recorded in generations.
func sequenceBugs() []simulator.Bug {
	meta := func(wrap func(store.MetaStore) store.MetaStore) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return wrap(inner) }
	}
	stamp := func(alter func(read store.Record, next *store.Entry)) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return meta(func(inner store.MetaStore) store.MetaStore { return &stampingStore{MetaStore: inner, alter: alter} })
	}
	return []simulator.Bug{
		{Name: "SEQ is read before META", Meta: meta(func(inner store.MetaStore) store.MetaStore { return &earlyStore{MetaStore: inner} })},
		{Name: "SEQ is read after the render", Meta: meta(func(inner store.MetaStore) store.MetaStore { return lateStore{inner} })},
		{Name: "generated_at is not when the render began", Meta: stamp(func(_ store.Record, next *store.Entry) {
			next.GeneratedAt = next.GeneratedAt.Add(5 * time.Second)
		})},
		{Name: "a generation keeps the etag of the one before", Meta: stamp(func(read store.Record, next *store.Entry) {
			if read.Entry != nil {
				next.ETag = read.Entry.ETag
			}
		})},
		{Name: "a generation keeps the body of the one before", Meta: stamp(func(read store.Record, next *store.Entry) {
			if read.Entry != nil {
				next.BodyKey = read.Entry.BodyKey
			}
		})},
		{Name: "purges of the page are ignored", Meta: meta(func(inner store.MetaStore) store.MetaStore { return blindStore{inner} })},
	}
}

// An earlyStore reads the sequence before the record, and returns it later.
type earlyStore struct {
	store.MetaStore
	mu  sync.Mutex
	seq store.Sequence // guarded by mu
}

func (s *earlyStore) Read(ctx context.Context, pk string) (store.Record, error) {
	seq, err := s.MetaStore.Sequence(ctx)
	if err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	s.seq = seq
	s.mu.Unlock()
	return s.MetaStore.Read(ctx, pk)
}

func (s *earlyStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return s.Read(ctx, pk)
}

func (s *earlyStore) Sequence(context.Context) (store.Sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq, nil
}

// A lateStore records the sequence of the publish in a generation.
type lateStore struct{ store.MetaStore }

func (s lateStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	seq, err := s.Sequence(ctx)
	if err != nil {
		return store.Entry{}, err
	}
	next.PurgeSeq = seq.Seq
	return s.MetaStore.Publish(ctx, l, read, next, how)
}

// A stampingStore publishes a modified entry.
type stampingStore struct {
	store.MetaStore
	alter func(read store.Record, next *store.Entry)
}

func (s *stampingStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	s.alter(read, &next)
	return s.MetaStore.Publish(ctx, l, read, next, how)
}

// A blindStore hides purges of a page.
type blindStore struct{ store.MetaStore }

func (s blindStore) Read(ctx context.Context, pk string) (store.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	rec.Purges = store.PurgeState{}
	return rec, err
}

func (s blindStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return s.Read(ctx, pk)
}
