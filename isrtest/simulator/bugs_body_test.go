package simulator_test

import (
	"context"
	"errors"
	"io"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// bodyBugs break bodies.
func bodyBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "the loser of a publish deletes its body", Meta: func(inner store.MetaStore, bodies store.BodyStore) store.MetaStore {
			return soreStore{inner, bodies}
		}},
		{Name: "bodies are stored incompletely", Bodies: func(inner store.BodyStore) store.BodyStore { return shortShelf{inner} }},
		{Name: "bodies are acknowledged before they are stored", Bodies: func(inner store.BodyStore) store.BodyStore { return hastyShelf{inner} }},
		{Name: "a body key is used twice", Bodies: func(inner store.BodyStore) store.BodyStore { return oneShelf{inner} }},
		{Name: "a denied body is reported as missing", Profile: "hanging", Bodies: func(inner store.BodyStore) store.BodyStore { return credulousShelf{inner} }},
	}
}

// A credulousShelf reports denied bodies as missing.
type credulousShelf struct{ store.BodyStore }

func (s credulousShelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, n, err := s.BodyStore.Open(ctx, key)
	if errors.Is(err, store.ErrDenied) {
		err = store.ErrNotFound
	}
	return r, n, err
}

// A soreStore deletes the body of a failed publish.
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

// A shortShelf drops the last byte of bodies.
type shortShelf struct{ store.BodyStore }

func (s shortShelf) Put(ctx context.Context, key string, body []byte) error {
	return s.BodyStore.Put(ctx, key, body[:max(len(body)-1, 0)])
}

// A hastyShelf acknowledges bodies before it stores them.
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
