package simulator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// historyBugs break versions, rollbacks, pins and the log.
func historyBugs() []simulator.Bug {
	onVersion := func(clause string) func(types.TransactWriteItem, []string) bool {
		return func(action types.TransactWriteItem, _ []string) bool {
			u := action.Update
			return u != nil && strings.HasPrefix(sortKey(u.Key), "VER#") && strings.Contains(aws.ToString(u.UpdateExpression), clause)
		}
	}
	meta := func(wrap func(store.MetaStore) store.MetaStore) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return wrap(inner) }
	}
	return []simulator.Bug{
		{Name: "a rollback does not update its version row", API: edit(editedAPI{drop: onVersion("REMOVE")})},
		{Name: "a superseded version never expires", API: edit(editedAPI{drop: onVersion("SET")})},
		{Name: "a publish writes no version", API: edit(editedAPI{drop: func(action types.TransactWriteItem, _ []string) bool {
			return action.Put != nil && strings.HasPrefix(sortKey(action.Put.Item), "VER#")
		}})},
		{Name: "a rollback writes no log row", API: edit(editedAPI{drop: func(action types.TransactWriteItem, _ []string) bool {
			return action.Put != nil && strings.HasPrefix(sortKey(action.Put.Item), "LOG#")
		}})},
		{Name: "a rollback does not increment the sequence", API: edit(editedAPI{drop: func(action types.TransactWriteItem, rows []string) bool {
			sk := sortKey(keyOf(action))
			return slices.Contains(rows, "META") && (sk == "SEQ" || strings.HasPrefix(sk, "LOG#"))
		}})},
		{Name: "a pin survives a publish", API: edit(editedAPI{meta: func(u *types.Update) {
			withMap(u, func(m item) {
				if m["asserted_at"] == nil && m["pinned_until"] == nil {
					m["pinned_until"] = &types.AttributeValueMemberN{Value: "253402300799"}
				}
			})
		}})},
		{Name: "a publish over a pin is not logged", Profile: "lagging", API: edit(editedAPI{drop: func(action types.TransactWriteItem, rows []string) bool {
			return slices.Contains(rows, "LOCK") && action.Put != nil && strings.HasPrefix(sortKey(action.Put.Item), "LOG#")
		}})},
		{Name: "a rollback ignores purge marks", Profile: "torn", API: edit(editedAPI{unlisted: "MARK#", forget: true})},
		{Name: "the cursor advances over a gap", Profile: "log", Meta: meta(func(inner store.MetaStore) store.MetaStore { return gaplessLog{inner} })},
		{Name: "SEQ is read before the back-off", Profile: "contention", API: func(inner dynamostore.API) dynamostore.API {
			return &earlyReader{API: inner}
		}},
		{Name: "pins are ignored", Meta: meta(func(inner store.MetaStore) store.MetaStore { return loosePins{inner} })},
		{Name: "the log is not read", Meta: meta(func(inner store.MetaStore) store.MetaStore { return silentLog{inner} })},
	}
}

// loosePins hides the pins of entries.
type loosePins struct{ store.MetaStore }

func (s loosePins) Read(ctx context.Context, pk string) (store.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	if rec.Entry != nil {
		e := *rec.Entry
		e.PinnedUntil = time.Time{}
		rec.Entry = &e
	}
	return rec, err
}

func (s loosePins) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return s.Read(ctx, pk)
}

// A gaplessLog fills gaps in the log with empty changes.
type gaplessLog struct{ store.MetaStore }

func (s gaplessLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	seq, found, err := s.MetaStore.Changes(ctx, after)
	var all []store.Change
	for _, change := range found {
		for next := after + 1; next < change.Seq; next++ {
			all = append(all, store.Change{Seq: next})
		}
		all, after = append(all, change), change.Seq
	}
	return seq, all, err
}

// An earlyReader pauses after reading SEQ again instead of before.
type earlyReader struct {
	dynamostore.API
	contended atomic.Bool
}

func (a *earlyReader) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...options) (*dynamodb.GetItemOutput, error) {
	out, err := a.API.GetItem(ctx, in, o...)
	if sortKey(in.Key) == "SEQ" && a.contended.CompareAndSwap(true, false) {
		time.Sleep(200 * time.Millisecond)
	}
	return out, err
}

func (a *earlyReader) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...options) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := a.API.TransactWriteItems(ctx, in, o...)
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	for i, action := range in.TransactItems {
		if ok && sortKey(keyOf(action)) == "SEQ" && aws.ToString(canceled.CancellationReasons[i].Code) == "ConditionalCheckFailed" {
			a.contended.Store(true)
		}
	}
	return out, err
}

// A silentLog returns no changes and hides the sequence, so that the log never looks truncated.
type silentLog struct{ store.MetaStore }

func (silentLog) Changes(context.Context, int64) (store.Sequence, []store.Change, error) {
	return store.Sequence{}, nil, nil
}

func (s silentLog) Sequence(ctx context.Context) (store.Sequence, error) {
	if _, err := s.MetaStore.Sequence(ctx); err != nil {
		return store.Sequence{}, err
	}
	return store.Sequence{}, nil
}
