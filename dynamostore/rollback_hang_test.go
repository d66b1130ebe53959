package dynamostore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// An unloggedAPI does not reply to reads of the log.
type unloggedAPI struct{ dynamostore.API }

func (a unloggedAPI) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	if sk, ok := in.TransactItems[0].Get.Key["sk"].(*types.AttributeValueMemberS); ok && strings.HasPrefix(sk.Value, "LOG#") {
		return nil, errReset
	}
	return a.API.TransactGetItems(ctx, in, o...)
}

// TestRollbackHang: a rollback that was overtaken, perhaps by itself, and cannot read
// by which change, fails after SettleTimeout with an unknown outcome, whatever the
// deadline of its caller.
func TestRollbackHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		f := newFixture(t, db)
		f.keep("g1")
		f.keep("g2")
		read := f.read()
		f.keep("g3")
		meta := newStore(t, unloggedAPI{db}, f.raw.name, dynamostore.Config{Now: f.clock.Now})
		started := time.Now()
		if _, err := meta.Rollback(context.Background(), read, "g1", f.assertion()); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Rollback: %v, want ErrUnknownOutcome", err)
		}
		if took := time.Since(started); took > 16*time.Second {
			t.Errorf("it took %v, want 15s to settle", took)
		}
	})
}
