package simulator_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/isrtest/simulator"
)

// historyBugs are those of versions, rollbacks, pins and the log.
func historyBugs() []simulator.Bug {
	onVersion := func(clause string) func(types.TransactWriteItem, []string) bool {
		return func(action types.TransactWriteItem, _ []string) bool {
			u := action.Update
			return u != nil && strings.HasPrefix(sortKey(u.Key), "VER#") && strings.Contains(aws.ToString(u.UpdateExpression), clause)
		}
	}
	meta := func(wrap func(isr.MetaStore) isr.MetaStore) func(isr.MetaStore, isr.BodyStore) isr.MetaStore {
		return func(inner isr.MetaStore, _ isr.BodyStore) isr.MetaStore { return wrap(inner) }
	}
	return []simulator.Bug{
		{Name: "a rollback does not touch its version row", API: edit(editedAPI{drop: onVersion("REMOVE")})},
		{Name: "a superseded version is kept for ever", API: edit(editedAPI{drop: onVersion("SET")})},
		{Name: "a publish writes no version", API: edit(editedAPI{drop: func(action types.TransactWriteItem, _ []string) bool {
			return action.Put != nil && strings.HasPrefix(sortKey(action.Put.Item), "VER#")
		}})},
		{Name: "a rollback is not written into the log", API: edit(editedAPI{drop: func(action types.TransactWriteItem, _ []string) bool {
			return action.Put != nil && strings.HasPrefix(sortKey(action.Put.Item), "LOG#")
		}})},
		{Name: "a rollback does not advance the log", API: edit(editedAPI{drop: func(action types.TransactWriteItem, rows []string) bool {
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
		{Name: "pins are not looked at", Meta: meta(func(inner isr.MetaStore) isr.MetaStore { return loosePins{inner} })},
		{Name: "the log is not read", Meta: meta(func(inner isr.MetaStore) isr.MetaStore { return silentLog{inner} })},
	}
}

// loosePins shows nobody that an entry is pinned.
type loosePins struct{ isr.MetaStore }

func (s loosePins) Read(ctx context.Context, pk string) (isr.Record, error) {
	rec, err := s.MetaStore.Read(ctx, pk)
	if rec.Entry != nil {
		e := *rec.Entry
		e.PinnedUntil = time.Time{}
		rec.Entry = &e
	}
	return rec, err
}

// A silentLog has nothing to tell, and is never found to be short.
type silentLog struct{ isr.MetaStore }

func (silentLog) Changes(context.Context, int64) ([]isr.Change, error) { return nil, nil }

func (s silentLog) Sequence(ctx context.Context) (isr.Sequence, error) {
	if _, err := s.MetaStore.Sequence(ctx); err != nil {
		return isr.Sequence{}, err
	}
	return isr.Sequence{}, nil
}
