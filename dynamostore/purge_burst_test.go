package dynamostore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
)

// TestPurgesOfABurst: ten thousand purges at once, of four processes some milliseconds away
// from the table, are all committed, each with the sequence of its change.
func TestPurgesOfABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const purges, stores = 10_000, 4
		c := newCrowd(t, stores)
		seqs := make([]int64, purges)
		began := time.Now()
		var group sync.WaitGroup
		for i := range purges {
			group.Go(func() {
				receipt, err := c.stores[i%stores].Purge(t.Context(), tagsOf(fmt.Sprint("tag-", i)))
				if err != nil {
					t.Errorf("purge %d: %v", i, err)
				}
				seqs[i] = receipt.Seq
			})
		}
		group.Wait()
		took := time.Since(began)
		told, rows := make(map[string]int64, purges), int64(0)
		for {
			_, changes, err := c.near.Changes(t.Context(), rows)
			if err != nil {
				t.Fatal(err)
			}
			if len(changes) == 0 {
				break
			}
			for _, change := range changes {
				if rows++; change.Seq != rows {
					t.Fatalf("sequence %d follows %d", change.Seq, rows-1)
				}
				for _, m := range change.Marks {
					told[m.Target.Value] = change.Seq
				}
			}
		}
		for i, seq := range seqs {
			if tag := fmt.Sprint("tag-", i); told[tag] != seq {
				t.Errorf("purge %d has the receipt %d, and is in the log at %d", i, seq, told[tag])
			}
		}
		t.Logf("%d purges took %v and %d transactions", purges, took, rows)
		if took > 15*time.Second || rows > purges/50 {
			t.Errorf("%d purges took %v and %d transactions", purges, took, rows)
		}
	})
}

// A throttlingAPI cancels transactions because the partition of the log takes no more.
type throttlingAPI struct {
	dynamostore.API
	left int // transactions to be cancelled
	sent []int
}

func (a *throttlingAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	a.sent = append(a.sent, len(in.TransactItems))
	if a.left > 0 {
		a.left--
		reasons := make([]types.CancellationReason, len(in.TransactItems))
		for i := range reasons {
			reasons[i].Code = aws.String("ThrottlingError")
		}
		return nil, &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	return a.API.TransactWriteItems(ctx, in, o...)
}

// Purges that the partition of the log throttles stay together: as many small transactions
// would consume more of what it lacks.
func TestThrottledPurgesStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, localDynamo(t))
		api := &throttlingAPI{API: f.raw.db, left: 3}
		s := newStore(t, api, f.raw.name, dynamostore.Config{Now: f.clock.Now})
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				if _, err := s.Purge(t.Context(), tagsOf(fmt.Sprint("tag-", i))); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := len(api.sent); n > 5 || api.sent[n-1] < 40 {
			t.Errorf("transactions of %v items", api.sent)
		}
	})
}
