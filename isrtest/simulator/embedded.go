package simulator

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
)

// embedded is the embedded engine, on which leases are volatile, as they are in a server on its
// own store.
type embedded struct{ *localdynamo.DB }

// writer is what dynamostore calls for the writes of single items.
type writer interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...options) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...options) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...options) (*dynamodb.DeleteItemOutput, error)
}

func (e embedded) writer(key item) writer {
	if textOf(key, "sk") == "LOCK" {
		return e.Volatile()
	}
	return e.DB
}

func (e embedded) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...options) (*dynamodb.PutItemOutput, error) {
	return e.writer(in.Item).PutItem(ctx, in, o...)
}

func (e embedded) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...options) (*dynamodb.UpdateItemOutput, error) {
	return e.writer(in.Key).UpdateItem(ctx, in, o...)
}

func (e embedded) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...options) (*dynamodb.DeleteItemOutput, error) {
	return e.writer(in.Key).DeleteItem(ctx, in, o...)
}
