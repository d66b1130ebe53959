package dynamostore_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/dynamostore"
)

// settleInOutage is how long changes wait for a store that does not reply. On a busy machine a
// call before the outage may take a good part of it.
const settleInOutage = 250 * time.Millisecond

// A fault is a failure that is injected into one call.
type fault int

const (
	none fault = iota
	lostRequest
	lostReply
	lateRequest // executed when the next call is made, or after the last one
	lastRequest // executed after all others
	serverError // 500, not executed
	serverErrorApplied
	throttled
	conflict
	inProgress
	denied // 400, not executed; a retry is useless
	faults // the number of faults
)

func (f fault) String() string {
	return [...]string{
		"none", "lostRequest", "lostReply", "lateRequest", "lastRequest", "serverError",
		"serverErrorApplied", "throttled", "conflict", "inProgress", "denied",
	}[f]
}

var errReset = errors.New("read tcp: connection reset by peer")

// A faultyAPI injects planned faults into the calls of a real engine.
type faultyAPI struct {
	dynamostore.API

	mu     sync.Mutex
	plan   []fault  // of the next calls, then none; guarded by mu
	down   bool     // every call is lost after the plan; guarded by mu
	late   []func() // guarded by mu
	last   []func() // guarded by mu
	before func(n int)
	calls  int // since arm; guarded by mu
	sent   []*dynamodb.TransactWriteItemsInput
}

// arm plans the faults of the next calls. before, if not nil, runs before each of them
// with its number, from 1.
func (f *faultyAPI) arm(plan []fault, down bool, before func(n int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.down, f.before, f.calls, f.sent = plan, down, before, 0, nil
}

// made returns the number of calls since arm.
func (f *faultyAPI) made() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// deliver executes all delayed calls.
func (f *faultyAPI) deliver() {
	f.deliverLate()
	f.mu.Lock()
	f.late, f.last = f.last, nil
	f.mu.Unlock()
	f.deliverLate()
}

func (f *faultyAPI) deliverLate() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, request := range late {
		request()
	}
}

func (f *faultyAPI) next() fault {
	f.mu.Lock()
	f.calls++
	n, before, now := f.calls, f.before, none
	if len(f.plan) > 0 {
		now, f.plan = f.plan[0], f.plan[1:]
	} else if f.down {
		now = lostRequest
	}
	f.mu.Unlock()
	f.deliverLate()
	if before != nil {
		before(n)
	}
	return now
}

// inject makes one call with its fault.
func inject[O any](f *faultyAPI, ctx context.Context, transaction bool, call func(context.Context) (*O, error)) (*O, error) {
	detached := context.WithoutCancel(ctx)
	switch f.next() {
	case lostRequest:
		return nil, errReset
	case lostReply:
		_, _ = call(detached)
		return nil, errReset
	case lateRequest:
		f.mu.Lock()
		f.late = append(f.late, func() { _, _ = call(detached) })
		f.mu.Unlock()
		return nil, errReset
	case lastRequest:
		f.mu.Lock()
		f.last = append(f.last, func() { _, _ = call(detached) })
		f.mu.Unlock()
		return nil, errReset
	case serverErrorApplied:
		_, _ = call(detached)
		return nil, &types.InternalServerError{Message: aws.String("injected")}
	case serverError:
		return nil, &types.InternalServerError{Message: aws.String("injected")}
	case throttled:
		return nil, &types.ProvisionedThroughputExceededException{Message: aws.String("injected")}
	case conflict:
		if transaction {
			return nil, &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{
				{Code: aws.String("None")}, {Code: aws.String("TransactionConflict")},
			}}
		}
		return nil, &types.TransactionConflictException{Message: aws.String("injected")}
	case inProgress:
		return nil, &types.TransactionInProgressException{Message: aws.String("injected")}
	case denied:
		return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}
	case none, faults:
	}
	return call(ctx)
}

func (f *faultyAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.GetItemOutput, error) { return f.API.GetItem(ctx, in) })
}

func (f *faultyAPI) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.BatchGetItemOutput, error) { return f.API.BatchGetItem(ctx, in) })
}

func (f *faultyAPI) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.BatchWriteItemOutput, error) {
		return f.API.BatchWriteItem(ctx, in)
	})
}

func (f *faultyAPI) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.QueryOutput, error) { return f.API.Query(ctx, in) })
}

func (f *faultyAPI) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.PutItemOutput, error) { return f.API.PutItem(ctx, in) })
}

func (f *faultyAPI) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) { return f.API.UpdateItem(ctx, in) })
}

func (f *faultyAPI) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return inject(f, ctx, false, func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) { return f.API.DeleteItem(ctx, in) })
}

func (f *faultyAPI) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return inject(f, ctx, true, func(ctx context.Context) (*dynamodb.TransactGetItemsOutput, error) {
		return f.API.TransactGetItems(ctx, in)
	})
}

func (f *faultyAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	f.mu.Lock()
	f.sent = append(f.sent, in)
	f.mu.Unlock()
	return inject(f, ctx, true, func(ctx context.Context) (*dynamodb.TransactWriteItemsOutput, error) {
		return f.API.TransactWriteItems(ctx, in)
	})
}
