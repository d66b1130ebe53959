package simulator_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// answerBugs misinterpret responses.
func answerBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a conflict is reported as a lost lease", Profile: "storm", API: edit(editedAPI{answered: func(rows []string, err error) error {
			if isConflict(err) {
				return cancelled(rows, "LOCK")
			}
			return err
		}})},
		{Name: "a lost reply to a publish is reported as a refusal", API: edit(editedAPI{answered: func(rows []string, err error) error {
			if _, answered := errors.AsType[smithy.APIError](err); err != nil && !answered {
				return cancelled(rows, "LOCK")
			}
			return err
		}})},
		{Name: "reads are eventually consistent", API: func(inner dynamostore.API) dynamostore.API {
			return &laggingAPI{API: inner, before: make(map[string]*dynamodb.QueryOutput)}
		}},
		{Name: "the heartbeat does nothing", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return deafStore{inner} }},
		{Name: "a lease is released after a publish", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return tidyStore{inner} }},
		{Name: "a publish is acknowledged before it is made", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return hastyStore{inner} }},
	}
}

// A laggingAPI returns the previous result to every other query, as eventually consistent
// reads may.
type laggingAPI struct {
	dynamostore.API
	mu     sync.Mutex
	before map[string]*dynamodb.QueryOutput // guarded by mu
}

func (a *laggingAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...options) (*dynamodb.QueryOutput, error) {
	out, err := a.API.Query(ctx, in, o...)
	if err != nil {
		return out, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := ""
	for _, name := range slices.Sorted(maps.Keys(in.ExpressionAttributeValues)) {
		key += sortKey(item{"sk": in.ExpressionAttributeValues[name]}) + "|"
	}
	old := a.before[key]
	if old == nil {
		a.before[key] = out
		return out, nil
	}
	delete(a.before, key)
	return old, nil
}

// A deafStore reports leases as extended without extending them.
type deafStore struct{ store.MetaStore }

func (deafStore) Refresh(context.Context, store.Lease) error { return nil }

// A tidyStore releases the lease again after a publish.
type tidyStore struct{ store.MetaStore }

func (s tidyStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	got, err := s.MetaStore.Publish(ctx, l, read, next, how)
	if err == nil {
		go func() { _ = s.Release(context.WithoutCancel(ctx), l) }()
	}
	return got, err
}

// A hastyStore acknowledges publishes before it makes them.
type hastyStore struct{ store.MetaStore }

func (s hastyStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	made := next
	go func() { _, _ = s.MetaStore.Publish(context.WithoutCancel(ctx), l, read, made, how) }()
	next.Version = time.Now().UnixMilli()
	return next, nil
}
