package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A hangingAPI replies to no call until the caller gives up.
type hangingAPI struct{ dynamostore.API }

func (hangingAPI) Query(ctx context.Context, _ *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hangingAPI) PutItem(ctx context.Context, _ *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hangingAPI) DeleteItem(ctx context.Context, _ *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A deafAPI loses every reply to a publish and does not reply afterwards.
type deafAPI struct {
	hangingAPI
	silent time.Duration // before a publish fails
}

func (deafAPI) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, nil
}

func (deafAPI) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{}, nil
}

func (d deafAPI) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	<-time.After(d.silent)
	return nil, errReset
}

// TestHang: a database that never replies delays no caller for longer than
// documented.
func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		meta := newStore(t, hangingAPI{}, "pages", dynamostore.Config{})
		started := time.Now()
		if _, err := meta.Read(t.Context(), pk); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("Read took %v, want twice CallTimeout at most", took)
		}
		started = time.Now()
		if _, err := meta.Acquire(t.Context(), pk, time.Minute, nil); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Acquire: %v", err)
		}
		if took := time.Since(started); took > 15*time.Second {
			t.Errorf("Acquire took %v, want thrice CallTimeout at most", took)
		}
	})
}

// TestPublishHang: a publish is repeated until the lease ends on the monotonic clock,
// although the wall clock stands still, and then settled for SettleTimeout.
func TestPublishHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frozen := time.Now()
		meta := newStore(t, deafAPI{silent: time.Second}, "pages", dynamostore.Config{Now: func() time.Time { return frozen }})
		l, read := begin(t, meta, pk)
		started := time.Now()
		next := store.Entry{BodyKey: "b", GenerationID: "g", GeneratedAt: frozen, Status: 200}
		if _, err := meta.Publish(t.Context(), l, read, next, store.PublishOptions{}); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Publish: %v", err)
		}
		if took := time.Since(started); took < 30*time.Second || took > 47*time.Second {
			t.Errorf("Publish took %v, want a lease of 30s and 15s to settle", took)
		}
	})
}
