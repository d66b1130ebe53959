package wire

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Faults are the errors of AWS that a program must be able to meet, and that the engine does not
// have by itself. Each is the share of the requests that it concerns, from 0 (none) to 1 (all).
type Faults struct {
	// Throttle is the share of requests for items that are refused with a
	// ProvisionedThroughputExceededException.
	Throttle float64

	// Conflict is the share of transactions that are canceled, with the reason
	// TransactionConflict, and of single writes that are refused with a
	// TransactionConflictException.
	Conflict float64

	// Unprocessed is the share of the keys and items of batches that are not read or
	// written, but returned in UnprocessedKeys and UnprocessedItems. As on AWS, a batch of
	// which nothing is processed is refused with a ProvisionedThroughputExceededException.
	Unprocessed float64
}

// Interceptor returns an Interceptor that makes the faults. A request that it refuses is not
// applied. random returns numbers in [0, 1), as rand.Float64 does; it must be safe for
// concurrent use.
func (f Faults) Interceptor(random func() float64) Interceptor {
	return func(_ context.Context, call Call, apply func()) error {
		switch in := call.Input.(type) {
		case *dynamodb.TransactWriteItemsInput:
			return f.transaction(random, len(in.TransactItems))
		case *dynamodb.TransactGetItemsInput:
			return f.transaction(random, len(in.TransactItems))
		case *dynamodb.PutItemInput, *dynamodb.UpdateItemInput, *dynamodb.DeleteItemInput:
			return f.write(random)
		case *dynamodb.GetItemInput, *dynamodb.QueryInput, *dynamodb.ScanInput:
			return f.throttle(random)
		case *dynamodb.BatchWriteItemInput:
			return f.batchWrite(random, in, call, apply)
		case *dynamodb.BatchGetItemInput:
			return f.batchGet(random, in, call, apply)
		}
		return nil // requests about tables
	}
}

func (f Faults) throttle(random func() float64) error {
	if random() < f.Throttle {
		return errThrottled()
	}
	return nil
}

func errThrottled() error {
	return &types.ProvisionedThroughputExceededException{
		Message: aws.String("The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API."),
	}
}

func (f Faults) write(random func() float64) error {
	if err := f.throttle(random); err != nil {
		return err
	}
	if random() < f.Conflict {
		return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
	}
	return nil
}

// transaction cancels a transaction because of one of its actions.
func (f Faults) transaction(random func() float64, actions int) error {
	if err := f.throttle(random); err != nil {
		return err
	}
	if actions == 0 || random() >= f.Conflict {
		return nil
	}
	canceled := &types.TransactionCanceledException{CancellationReasons: make([]types.CancellationReason, actions)}
	message := "Transaction cancelled, please refer cancellation reasons for specific reasons ["
	conflict := min(int(random()*float64(actions)), actions-1)
	for i := range canceled.CancellationReasons {
		reason := &canceled.CancellationReasons[i]
		reason.Code = aws.String("None")
		if i == conflict {
			reason.Code, reason.Message = aws.String("TransactionConflict"), aws.String("Transaction is ongoing for the item")
		}
		if i > 0 {
			message += ", "
		}
		message += *reason.Code
	}
	canceled.Message = aws.String(message + "]")
	return canceled
}

// drawn returns the elements that remain, and those that are not processed.
func drawn[E any](random func() float64, rate float64, elements []E) (remain, unprocessed []E) {
	for _, e := range elements {
		if random() < rate {
			unprocessed = append(unprocessed, e)
		} else {
			remain = append(remain, e)
		}
	}
	return remain, unprocessed
}

func (f Faults) batchWrite(random func() float64, in *dynamodb.BatchWriteItemInput, call Call, apply func()) error {
	if err := f.throttle(random); err != nil {
		return err
	}
	remain, unprocessed := make(map[string][]types.WriteRequest), make(map[string][]types.WriteRequest)
	for table, requests := range in.RequestItems {
		some, others := drawn(random, f.Unprocessed, requests)
		if len(some) > 0 || len(others) == 0 { // an empty list is for the engine to refuse
			remain[table] = some
		}
		if len(others) > 0 {
			unprocessed[table] = others
		}
	}
	switch {
	case len(unprocessed) == 0:
		return nil
	case len(remain) == 0:
		return errThrottled()
	}
	in.RequestItems = remain
	apply()
	if out, ok := call.Output().(*dynamodb.BatchWriteItemOutput); ok {
		out.UnprocessedItems = unprocessed
	}
	return nil
}

func (f Faults) batchGet(random func() float64, in *dynamodb.BatchGetItemInput, call Call, apply func()) error {
	if err := f.throttle(random); err != nil {
		return err
	}
	remain, unprocessed := make(map[string]types.KeysAndAttributes), make(map[string]types.KeysAndAttributes)
	for table, request := range in.RequestItems {
		rest := request
		request.Keys, rest.Keys = drawn(random, f.Unprocessed, request.Keys)
		if len(request.Keys) > 0 || len(rest.Keys) == 0 {
			remain[table] = request
		}
		if len(rest.Keys) > 0 {
			unprocessed[table] = rest
		}
	}
	switch {
	case len(unprocessed) == 0:
		return nil
	case len(remain) == 0:
		return errThrottled()
	}
	in.RequestItems = remain
	apply()
	if out, ok := call.Output().(*dynamodb.BatchGetItemOutput); ok {
		for table, request := range out.UnprocessedKeys { // beyond 16 MB
			request.Keys = append(request.Keys, unprocessed[table].Keys...)
			unprocessed[table] = request
		}
		out.UnprocessedKeys = unprocessed
	}
	return nil
}
