package simulator_test

import (
	"context"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// tornBugs read rows as if transactions were never seen in part.
func tornBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a page that has just changed is read by a query", Profile: "torn", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore {
			return queryingStore{inner}
		}},
		{Name: "a process starts without the newest rows of the log", Profile: "torn", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore {
			return forgetfulLog{inner}
		}},
	}
}

// A queryingStore reads all pages by queries.
type queryingStore struct{ store.MetaStore }

func (s queryingStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return s.Read(ctx, pk)
}

// A forgetfulLog has no rows but those that a follower asks for.
type forgetfulLog struct{ store.MetaStore }

func (forgetfulLog) Recent(context.Context, int64) ([]store.Change, error) { return nil, nil }
