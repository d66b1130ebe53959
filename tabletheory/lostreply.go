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

// The SDK retries a request whose reply was lost and returns only the last reply.
// If the first attempt was applied, a conditional write then fails on its own
// effect. So every write observes its attempts in the SDK, and this file
// classifies a failure after an attempt that may have been applied.

// attempts observes the attempts that the SDK makes at one request, one after
// the other. It is not safe for concurrent use.
type attempts struct {
	observed   bool // by the SDK; without that nothing is known of the attempts
	sent       bool // an attempt was made
	latest     bool // the latest attempt has an unknown outcome
	unanswered bool // an earlier attempt has an unknown outcome
}

// observe is an option of the call whose attempts to observe. A client other
// than the SDK's ignores it and makes one attempt.
func (a *attempts) observe(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		a.observed = true
		return stack.Finalize.Insert(a, "Retry", middleware.After)
	})
}

// ID implements the SDK's FinalizeMiddleware.
func (*attempts) ID() string { return "tabletheory:attempts" }

// HandleFinalize implements the SDK's FinalizeMiddleware. It runs below the
// retry middleware, once for each attempt.
func (a *attempts) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	a.unanswered = a.unanswered || a.latest
	if err := ctx.Err(); err != nil {
		a.latest = false
		return middleware.FinalizeOutput{}, middleware.Metadata{}, err
	}
	a.sent = true
	out, metadata, err := next.HandleFinalize(ctx, in)
	// A single throttled attempt was not applied.
	a.latest = OutcomeOf(err) == Unknown && !errors.Is(sentinelOf(err), ErrThrottled)
	return out, metadata, err
}

// classify returns the error of the request: [ErrUnknownOutcome] if err is a
// refusal but an earlier attempt may have been applied. A cancelled transaction
// is certain: with its token, DynamoDB would have reported an earlier success. So is a
// request whose context was done before the first attempt.
func (a *attempts) classify(err error) error {
	if done := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); done && a.observed && !a.sent {
		return &unsentError{err}
	}
	if !a.unanswered || OutcomeOf(err) == Applied || OutcomeOf(err) == Unknown {
		return err
	}
	if _, canceled := errors.AsType[*types.TransactionCanceledException](err); canceled {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// classifyReply classifies the error of a write of one item. If the write failed
// on its own effect, it returns the attributes that the write was to return, and
// no error.
func (w *write) classifyReply(a *attempts, returned types.ReturnValue, err error) (model.Item, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok || !a.unanswered || !w.produces(failed.Item) {
		return nil, a.classify(err)
	}
	var item model.Item
	switch returned {
	case types.ReturnValueAllNew:
		item = failed.Item
	case types.ReturnValueUpdatedNew:
		item = maps.Clone(w.sets)
	case types.ReturnValueAllOld, types.ReturnValueUpdatedOld:
		return nil, a.classify(err) // only the lost reply had the old item
	}
	w.updateModel()
	return item, nil
}

// produces reports whether the stored item is the result of the write.
//
// A put stores the item that it sends. An update is recognized by the version
// that it compares and increments: without a version, another writer could have
// stored equal attributes, such as two leases that expire in the same second. A
// missing item does not show which request deleted it.
func (w *write) produces(stored model.Item) bool {
	switch w.kind {
	case kindPut, kindCreate:
		return equalItems(w.item, stored)
	case kindUpdate:
		if w.wantVersion == nil || w.dependsOnStored {
			return false
		}
	default:
		return false
	}
	for name, av := range w.sets {
		if !equalValues(av, stored[name]) {
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

// executeAsTransaction sends the write as a transaction, whose client token
// makes retries idempotent.
func (w *write) executeAsTransaction(ctx context.Context) error {
	tx := &TransactionBuilder{mapper: w.mapper, ctx: ctx, writes: []*write{w}}
	err := tx.send()
	if _, failed := failedCondition(err); failed {
		return err
	}
	return cancellationError(tx.actions(), err)
}

// updateWithoutRetry sends an update that is not idempotent and whose result is
// requested, which transactions do not return. It makes one attempt, and another
// one only after DynamoDB has throttled it, because then it was not applied.
func (w *write) updateWithoutRetry(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	for attempt := 1; ; attempt++ {
		item, err := w.updateItem(ctx, returned, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		if !errors.Is(sentinelOf(err), ErrThrottled) || attempt > w.retries || !waitAfter(ctx, attempt) {
			return item, err
		}
	}
}
