package tabletheory

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// The SDK repeats a request whose reply was lost, and returns the last answer
// alone. A conditional write that was carried out then fails on its own effect:
// an echo. So every write follows its attempts through the SDK, and a failure
// after an attempt that may have been carried out is judged here.

// attempts follows the attempts that the SDK makes at one request. They come one
// after the other; it is not safe for concurrent use.
type attempts struct {
	latest     bool // the latest attempt may have been carried out
	unanswered bool // an attempt before it may have been
}

// follow is an option of a call whose attempts are to be followed. A client
// that is not the SDK's takes no notice, and makes one attempt.
func (a *attempts) follow(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(a, "Retry", middleware.After)
	})
}

// ID implements the SDK's FinalizeMiddleware.
func (*attempts) ID() string { return "tabletheory:attempts" }

// HandleFinalize implements the SDK's FinalizeMiddleware. It runs beneath the
// retries, once for each attempt.
func (a *attempts) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	a.unanswered = a.unanswered || a.latest
	out, metadata, err := next.HandleFinalize(ctx, in)
	// One attempt that was throttled was not carried out.
	a.latest = OutcomeOf(err) == Unknown && !errors.Is(sentinelOf(err), ErrThrottled)
	return out, metadata, err
}

// judge returns the error of the request: unknown if err denies what an earlier
// attempt may have done. A transaction's token vouches for a cancellation: had
// an earlier attempt been carried out, it would have been a success.
func (a *attempts) judge(err error) error {
	if !a.unanswered || OutcomeOf(err) == Applied || OutcomeOf(err) == Unknown {
		return err
	}
	if _, canceled := errors.AsType[*types.TransactionCanceledException](err); canceled {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// settle judges the error of a write of one item. If it is the echo of the write
// it returns what the write was to return, and no error.
func (w *write) settle(a *attempts, returned types.ReturnValue, err error) (model.Item, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok || !a.unanswered || !w.left(failed.Item) {
		return nil, a.judge(err)
	}
	var item model.Item
	switch returned {
	case types.ReturnValueAllNew:
		item = failed.Item
	case types.ReturnValueUpdatedNew:
		item = maps.Clone(w.sets)
	case types.ReturnValueAllOld, types.ReturnValueUpdatedOld:
		return nil, a.judge(err) // only the lost reply knew what was there before
	}
	w.happened()
	return item, nil
}

// left reports whether the stored item is what the write leaves.
//
// A put leaves the item that it sends. An update is recognized by the version
// that it demands and increments: without one, the attributes that it sets could
// be equal in another writer's item, as in two leases that end in the same second. An item that
// is gone does not tell who deleted it.
func (w *write) left(stored model.Item) bool {
	switch w.kind {
	case kindPut, kindCreate:
		return sameItem(w.item, stored)
	case kindUpdate:
		if w.demanded == nil || w.derives {
			return false
		}
	default:
		return false
	}
	for name, av := range w.sets {
		if !sameValue(av, stored[name]) {
			return false
		}
	}
	for _, name := range w.removes {
		if stored[name] != nil {
			return false
		}
	}
	return true
}

// sendOnce sends the write as a transaction, whose client token keeps a
// repetition from being carried out a second time.
func (w *write) sendOnce(ctx context.Context) error {
	tx := &TransactionBuilder{mapper: w.mapper, ctx: ctx, writes: []*write{w}}
	err := tx.post()
	if _, failed := failedCondition(err); failed {
		return err
	}
	return canceled(tx.actions(), err)
}

// updateOnce sends an update that must not be carried out a second time, and
// whose result is wanted, which transactions do not return: one attempt, and
// another one only after DynamoDB has said that it did not carry it out.
func (w *write) updateOnce(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	for attempt := 1; ; attempt++ {
		item, err := w.updateItem(ctx, returned, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		if !errors.Is(sentinelOf(err), ErrThrottled) || attempt > w.retries || !pausedAfter(ctx, attempt) {
			return item, err
		}
	}
}
