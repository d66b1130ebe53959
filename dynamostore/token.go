package dynamostore

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// errTokenExpired: DynamoDB may have forgotten the token of a request, which alone
// could tell what became of it.
var errTokenExpired = errors.New("the client token of a request is too old to ask what became of it")

// A tokenAPI keeps the SDK from repeating a transaction under a token that has
// become too old between two of its attempts: a process can freeze anywhere. It
// knows the request by the context; see [transaction.send].
type tokenAPI struct{ API }

// transactionKey is the key of the *transaction in a context.
type transactionKey struct{}

func (a tokenAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if r, ok := ctx.Value(transactionKey{}).(*transaction); ok {
		o = append(o, r.guard)
	}
	return a.API.TransactWriteItems(ctx, in, o...)
}

// guard has the request's age checked before each attempt of the SDK.
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
