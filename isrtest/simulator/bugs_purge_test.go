package simulator_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// purgeBugs break purges by the nodes, and what the nodes know of purges.
func purgeBugs() []simulator.Bug {
	meta := func(wrap func(store.MetaStore) store.MetaStore) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return wrap(inner) }
	}
	marks := func(alter func([]store.Mark) []store.Mark) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return meta(func(inner store.MetaStore) store.MetaStore { return markedLog{inner, alter} })
	}
	purge := func(alter func(store.MetaStore, context.Context, store.Purge) (store.Receipt, error)) func(store.MetaStore, store.BodyStore) store.MetaStore {
		return meta(func(inner store.MetaStore) store.MetaStore { return purgingStore{inner, alter} })
	}
	return []simulator.Bug{
		{Name: "marks in the log are applied without their hard_seq", Profile: "purges", Meta: marks(func(of []store.Mark) []store.Mark {
			for i := range of {
				of[i].HardSeq = 0
			}
			return of
		})},
		{Name: "a node skips all marks of a log row but the first", Profile: "purges", Meta: marks(func(of []store.Mark) []store.Mark { return of[:min(len(of), 1)] })},
		{Name: "a purge is acknowledged before it is committed", Profile: "purges", Meta: purge(func(inner store.MetaStore, ctx context.Context, p store.Purge) (store.Receipt, error) {
			seq, err := inner.Sequence(ctx)
			if err != nil {
				return store.Receipt{}, err
			}
			go func() { _, _ = inner.Purge(context.WithoutCancel(ctx), p) }()
			return store.Receipt{Seq: seq.Seq + 1}, nil
		})},
		{Name: "the receipt of a purge is the sequence before it", Profile: "purges", Meta: purge(func(inner store.MetaStore, ctx context.Context, p store.Purge) (store.Receipt, error) {
			r, err := inner.Purge(ctx, p)
			r.Seq--
			return r, err
		})},
		{Name: "only the first target of a purge is purged", Profile: "purges", Meta: purge(func(inner store.MetaStore, ctx context.Context, p store.Purge) (store.Receipt, error) {
			p.Targets = p.Targets[:1]
			return inner.Purge(ctx, p)
		})},
		{Name: "a lost reply means that nothing was purged", Profile: "replies", API: edit(editedAPI{answered: func(rows []string, err error) error {
			if err != nil && isPurge(rows) && !isConflict(err) {
				return cancelled(rows, "SEQ")
			}
			return err
		}})},
		{Name: "a soft purge overwrites hard_seq", Profile: "purges", API: onPurges(func(u *types.Update) {
			if !strings.Contains(aws.ToString(u.UpdateExpression), "hard_seq") && !slices.Contains(namesOf(u), "hard_seq") {
				u.UpdateExpression = aws.String(aws.ToString(u.UpdateExpression) + " REMOVE hard_seq")
			}
		})},
		{Name: "a purge writes no mark", Profile: "purges", API: edit(editedAPI{drop: func(action types.TransactWriteItem, _ []string) bool {
			return strings.HasPrefix(sortKey(keyOf(action)), "MARK#")
		}})},
		{Name: "a purge writes no log row", Profile: "purges", API: edit(editedAPI{drop: func(action types.TransactWriteItem, rows []string) bool {
			return isPurge(rows) && strings.HasPrefix(sortKey(keyOf(action)), "LOG#")
		}})},
		{Name: "marks are read before SEQ", Profile: "purges", Meta: meta(func(inner store.MetaStore) store.MetaStore { return &earlyMarks{MetaStore: inner} })},
		{Name: "marks are not read at the start", Profile: "purges", Meta: meta(func(inner store.MetaStore) store.MetaStore { return unmarkedStore{inner} })},
	}
}

func isPurge(rows []string) bool {
	return slices.ContainsFunc(rows, func(sk string) bool { return sk == "PURGE" || strings.HasPrefix(sk, "MARK#") })
}

func namesOf(u *types.Update) (names []string) {
	for _, name := range u.ExpressionAttributeNames {
		names = append(names, name)
	}
	return names
}

// onPurges alters the updates of PURGE and MARK# rows.
func onPurges(alter func(*types.Update)) func(dynamostore.API) dynamostore.API {
	return func(inner dynamostore.API) dynamostore.API { return &purgeAPI{inner, alter} }
}

type purgeAPI struct {
	dynamostore.API
	alter func(*types.Update)
}

func (a *purgeAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...options) (*dynamodb.TransactWriteItemsOutput, error) {
	altered := *in
	altered.TransactItems = slices.Clone(in.TransactItems)
	for i, action := range altered.TransactItems {
		if action.Update == nil || !isPurge([]string{sortKey(action.Update.Key)}) {
			continue
		}
		update := *action.Update
		a.alter(&update)
		altered.TransactItems[i].Update = &update
	}
	return a.API.TransactWriteItems(ctx, &altered, o...)
}

// A purgingStore replaces purges.
type purgingStore struct {
	store.MetaStore
	purge func(store.MetaStore, context.Context, store.Purge) (store.Receipt, error)
}

func (s purgingStore) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	return s.purge(s.MetaStore, ctx, p)
}

// A markedLog alters the marks of log rows.
type markedLog struct {
	store.MetaStore
	alter func([]store.Mark) []store.Mark
}

func (s markedLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	seq, changes, err := s.MetaStore.Changes(ctx, after)
	for i := range changes {
		changes[i].Marks = s.alter(changes[i].Marks)
	}
	return seq, changes, err
}

// An earlyMarks reads the marks before SEQ when a process starts, and returns them later, without
// the rows of the newest changes.
type earlyMarks struct {
	store.MetaStore
	read atomic.Pointer[[]store.Mark]
}

func (s *earlyMarks) Sequence(ctx context.Context) (store.Sequence, error) {
	if s.read.Load() == nil {
		var all []store.Mark
		for m, err := range s.MetaStore.Marks(ctx) {
			if err != nil {
				return store.Sequence{}, err
			}
			all = append(all, m)
		}
		s.read.Store(&all)
	}
	return s.MetaStore.Sequence(ctx)
}

func (*earlyMarks) Recent(context.Context, int64) ([]store.Change, error) { return nil, nil }

func (s *earlyMarks) Marks(context.Context) iter.Seq2[store.Mark, error] {
	return func(yield func(store.Mark, error) bool) {
		for _, m := range *s.read.Load() {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// An unmarkedStore has no marks but those that a follower reads in the log.
type unmarkedStore struct{ store.MetaStore }

func (unmarkedStore) Recent(context.Context, int64) ([]store.Change, error) { return nil, nil }

func (unmarkedStore) Marks(context.Context) iter.Seq2[store.Mark, error] {
	return func(func(store.Mark, error) bool) {}
}
