package dynamostore

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// errTokenExpired: DynamoDB may have forgotten the client token of a transaction, so a
// repetition would not return the outcome of the first attempt.
var errTokenExpired = errors.New("the client token of the transaction is too old to repeat it")

// A tokenAPI keeps the SDK from repeating a transaction whose client token has expired
// between two attempts of the SDK: a process can freeze anywhere. It also notes the
// write units of a transaction. The context has the transaction; see [transaction.send].
type tokenAPI struct{ API }

// transactionKey is the key of the *transaction in a context.
type transactionKey struct{}

func (a tokenAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	t, ok := ctx.Value(transactionKey{}).(*transaction)
	if !ok {
		return a.API.TransactWriteItems(ctx, in, o...)
	}
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := a.API.TransactWriteItems(ctx, &asked, append(o, t.guard)...)
	if err == nil {
		for _, table := range out.ConsumedCapacity {
			_, write := unitsOf(&table)
			t.units += write
		}
	}
	return out, err
}

// guard checks the age of the transaction before each attempt of the SDK.
func (t *transaction) guard(o *dynamodb.Options) {
	check := middleware.FinalizeMiddlewareFunc("isr:token-age",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if t.expired() {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, errTokenExpired
			}
			return next.HandleFinalize(ctx, in)
		})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(check, "Retry", middleware.After)
	})
}
