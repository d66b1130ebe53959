package simulator_test

import (
	"context"
	"errors"
	"io"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// bodyBugs are those of bodies.
func bodyBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "the loser of a publish deletes its body", Meta: func(inner store.MetaStore, bodies store.BodyStore) store.MetaStore {
			return soreStore{inner, bodies}
		}},
		{Name: "bodies are not stored whole", Bodies: func(inner store.BodyStore) store.BodyStore { return shortShelf{inner} }},
		{Name: "bodies are acknowledged before they are there", Bodies: func(inner store.BodyStore) store.BodyStore { return hastyShelf{inner} }},
		{Name: "a body's key is used again", Bodies: func(inner store.BodyStore) store.BodyStore { return oneShelf{inner} }},
		{Name: "a body that is denied is taken for missing", Profile: "hanging", Bodies: func(inner store.BodyStore) store.BodyStore { return credulousShelf{inner} }},
	}
}

// A credulousShelf has nothing that it is not given.
type credulousShelf struct{ store.BodyStore }

func (s credulousShelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, n, err := s.BodyStore.Open(ctx, key)
	if errors.Is(err, store.ErrDenied) {
		err = store.ErrNotFound
	}
	return r, n, err
}

// A soreStore takes the body of a publish that failed away.
type soreStore struct {
	store.MetaStore
	bodies store.BodyStore
}

func (s soreStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	got, err := s.MetaStore.Publish(ctx, l, read, next, how)
	if err != nil {
		_ = s.bodies.Delete(context.WithoutCancel(ctx), next.BodyKey)
	}
	return got, err
}

// A shortShelf loses the last byte.
type shortShelf struct{ store.BodyStore }

func (s shortShelf) Put(ctx context.Context, key string, body []byte) error {
	return s.BodyStore.Put(ctx, key, body[:max(len(body)-1, 0)])
}

// A hastyShelf stores in its own time.
type hastyShelf struct{ store.BodyStore }

func (s hastyShelf) Put(ctx context.Context, key string, body []byte) error {
	go func() { _ = s.BodyStore.Put(context.WithoutCancel(ctx), key, body) }()
	return nil
}

// A oneShelf stores all bodies under one key.
type oneShelf struct{ store.BodyStore }

func (s oneShelf) Put(ctx context.Context, _ string, body []byte) error {
	return s.BodyStore.Put(ctx, "bodies/one", body)
}
