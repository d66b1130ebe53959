package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A tornAPI is in the middle of committing a transaction: reads do not show what it has
// written to the rows whose sort keys begin with hidden. TransactGetItems of one of them is
// refused, conflicts times; then the commit is complete.
type tornAPI struct {
	dynamostore.API
	hidden    string
	before    attrs // the row of before; nil: there was none
	conflicts int
}

func (a *tornAPI) hides(key attrs) bool {
	sk, _ := key["sk"].(*types.AttributeValueMemberS)
	return a.conflicts > 0 && sk != nil && strings.HasPrefix(sk.Value, a.hidden)
}

func (a *tornAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := a.API.GetItem(ctx, in, o...)
	if err == nil && a.hides(in.Key) {
		out.Item = a.before
	}
	return out, err
}

func (a *tornAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := a.API.Query(ctx, in, o...)
	if err == nil {
		out.Items = slices.DeleteFunc(out.Items, func(row map[string]types.AttributeValue) bool { return a.hides(row) })
	}
	return out, err
}

func (a *tornAPI) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	for _, get := range in.TransactItems {
		if a.hides(get.Get.Key) {
			a.conflicts--
			return nil, &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		}
	}
	return a.API.TransactGetItems(ctx, in, o...)
}

// onTorn runs a test with a store that sees a transaction in part.
func onTorn(t *testing.T, test func(t *testing.T, f *fixture, api *tornAPI, torn *dynamostore.Store)) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		api := &tornAPI{API: db}
		test(t, f, api, newStore(t, api, f.raw.name, dynamostore.Config{Now: f.clock.Now}))
	})
}

// conflicts are more than a bounded call has attempts.
const conflicts = 6

// ReadSerializable waits for a purge of the page that is being committed, which Read does not
// show.
func TestReadSerializable(t *testing.T) {
	onTorn(t, func(t *testing.T, f *fixture, api *tornAPI, torn *dynamostore.Store) {
		f.keep("g1")
		f.purge(store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeKey, Tenant: "t1", Value: "example.com/", PK: pk}}, Hard: true})
		api.hidden, api.conflicts = "PURGE", conflicts
		if rec, err := torn.Read(t.Context(), pk); err != nil || rec.Purges.HardSeq != 0 {
			t.Fatalf("Read: %+v, %v; the test is to hide the purge", rec.Purges, err)
		}
		rec, err := torn.ReadSerializable(t.Context(), pk)
		if err != nil || rec.Purges.HardSeq != 1 || rec.Entry == nil {
			t.Errorf("ReadSerializable: %+v, %v, want the purge", rec, err)
		}
		want := f.read()
		if d := diff([]any{want.Entry, want.Purges, want.Lock}, []any{rec.Entry, rec.Purges, rec.Lock}); d != "" {
			t.Errorf("(-Read +ReadSerializable):\n%s", d)
		}
	})
}

// A rollback does not restore a generation that a hard purge covers whose sequence it has read,
// but whose rows it does not see yet.
func TestRollbackDuringAPurge(t *testing.T) {
	for name, target := range map[string]store.PurgeTarget{
		"PURGE": {Kind: store.PurgeKey, Tenant: "t1", Value: "example.com/", PK: pk},
		"MARK#": {Kind: store.PurgePrefix, Tenant: "t1", Value: "example.com/"},
	} {
		t.Run(name, func(t *testing.T) {
			onTorn(t, func(t *testing.T, f *fixture, api *tornAPI, torn *dynamostore.Store) {
				f.keep("g1")
				f.keep("g2")
				read := f.read()
				for range 4 { // the generations have the sequence 3
					f.purge(store.Purge{Targets: []store.PurgeTarget{target}, Hard: true})
				}
				api.hidden, api.conflicts = name, conflicts
				if _, err := torn.Rollback(t.Context(), read, "g1", f.assertion()); !errors.Is(err, store.ErrPurged) {
					t.Errorf("Rollback: %v, want ErrPurged", err)
				}
			})
		})
	}
}

// A rollback or a publish whose reply was lost, and which is still being committed, is not
// reported as failed.
func TestSettledDuringTheCommit(t *testing.T) {
	for _, hidden := range []string{"LOG#", "META"} {
		t.Run(hidden, func(t *testing.T) {
			onTorn(t, func(t *testing.T, f *fixture, api *tornAPI, _ *dynamostore.Store) {
				f.keep("g1")
				f.keep("g2")
				read := f.read()
				api.hidden, api.before = hidden, f.raw.get(pk, hidden)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				once := &lostOnceAPI{API: api, lost: func() {
					api.conflicts = conflicts
					if hidden == "META" {
						cancel() // a repetition would tell
					}
				}}
				faulty := newStore(t, once, f.raw.name, dynamostore.Config{Now: f.clock.Now})
				var err error
				if hidden == "LOG#" {
					_, err = faulty.Rollback(ctx, read, "g1", f.assertion())
				} else {
					l, acquireErr := faulty.Acquire(ctx, pk, store.DefaultLease, nil)
					if acquireErr != nil {
						t.Fatal(acquireErr)
					}
					_, err = faulty.Publish(ctx, l, read, f.entry("g3"), store.PublishOptions{})
				}
				if err != nil || api.conflicts != 0 {
					t.Errorf("%v, with %d conflicts left; want success", err, api.conflicts)
				}
			})
		})
	}
}

// A lostOnceAPI loses the reply to the first transaction, and then refuses its client token as
// DynamoDB does after ten minutes: by the conditions.
type lostOnceAPI struct {
	dynamostore.API
	lost func()
	sent bool
}

func (a *lostOnceAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	again := *in
	again.ClientRequestToken = nil
	out, err := a.API.TransactWriteItems(ctx, &again, o...)
	if !a.sent && err == nil {
		a.sent = true
		a.lost()
		return nil, errReset
	}
	return out, err
}

// Recent returns the newest rows, those that are being committed too, up to one that has
// expired.
func TestRecent(t *testing.T) {
	onTorn(t, func(t *testing.T, f *fixture, api *tornAPI, torn *dynamostore.Store) {
		recent := func(upTo int64) (seqs []int64) {
			t.Helper()
			changes, err := torn.Recent(t.Context(), upTo)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range changes {
				seqs = append(seqs, change.Seq)
			}
			return seqs
		}
		for seq := range int64(6) {
			f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", seq+1), attrs{"targets": list()})
		}
		want := func(what string, upTo int64, want ...int64) {
			t.Helper()
			if got := recent(upTo); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		want("nothing", 0)
		want("all", 6, 6, 5, 4, 3, 2, 1)
		want("up to 4", 4, 4, 3, 2, 1)
		api.hidden, api.conflicts = fmt.Sprintf("LOG#%020d", 6), conflicts
		want("while the newest is being committed", 6, 6, 5, 4, 3, 2, 1)
		api.hidden, api.conflicts = fmt.Sprintf("LOG#%020d", 4), conflicts
		want("while an older one is", 6, 6, 5, 4, 3, 2, 1)
		f.raw.set("PURGE", fmt.Sprintf("LOG#%020d", 3), nil)
		want("one has expired", 6, 6, 5, 4)
		want("the newest has expired", 3)
	})
}
