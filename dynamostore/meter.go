package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A meteredAPI requests the consumed capacity of every call, and counts it for the
// operation in the call's context. It overrides all methods that a store calls.
type meteredAPI struct {
	API
	count func(operation string, read, write float64)
}

// operationKey is the key of the operation in a context.
type operationKey struct{}

// metered returns a context that names the operation for the meter.
func (s *Store) metered(ctx context.Context, operation string) context.Context {
	if s.config.Meter == nil {
		return ctx
	}
	return context.WithValue(ctx, operationKey{}, operation)
}

// read counts the capacity of a read, and write the capacity of a write.
func (m meteredAPI) read(ctx context.Context, c *types.ConsumedCapacity) {
	if c != nil {
		operation, _ := ctx.Value(operationKey{}).(string)
		m.count(operation, aws.ToFloat64(c.CapacityUnits), 0)
	}
}

func (m meteredAPI) write(ctx context.Context, c *types.ConsumedCapacity) {
	if c == nil {
		return
	}
	operation, _ := ctx.Value(operationKey{}).(string)
	read, write := unitsOf(c)
	m.count(operation, read, write)
}

// unitsOf returns the units that a write consumed. The repetition of a committed
// transaction consumes read units.
func unitsOf(c *types.ConsumedCapacity) (read, write float64) {
	if c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil {
		return aws.ToFloat64(c.ReadCapacityUnits), aws.ToFloat64(c.WriteCapacityUnits)
	}
	return 0, aws.ToFloat64(c.CapacityUnits)
}

const total = types.ReturnConsumedCapacityTotal

func (m meteredAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.GetItem(ctx, &asked, o...)
	if err == nil {
		m.read(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.BatchGetItem(ctx, &asked, o...)
	if err == nil {
		for _, table := range out.ConsumedCapacity {
			m.read(ctx, &table)
		}
	}
	return out, err
}

func (m meteredAPI) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.BatchWriteItem(ctx, &asked, o...)
	if err == nil {
		for _, table := range out.ConsumedCapacity {
			m.write(ctx, &table)
		}
	}
	return out, err
}

func (m meteredAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.Query(ctx, &asked, o...)
	if err == nil {
		m.read(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.Scan(ctx, &asked, o...)
	if err == nil {
		m.read(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.PutItem(ctx, &asked, o...)
	if err == nil {
		m.write(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.UpdateItem(ctx, &asked, o...)
	if err == nil {
		m.write(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.DeleteItem(ctx, &asked, o...)
	if err == nil {
		m.write(ctx, out.ConsumedCapacity)
	}
	return out, err
}

func (m meteredAPI) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.TransactGetItems(ctx, &asked, o...)
	if err == nil {
		for _, table := range out.ConsumedCapacity {
			m.read(ctx, &table)
		}
	}
	return out, err
}

func (m meteredAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	asked := *in
	asked.ReturnConsumedCapacity = total
	out, err := m.API.TransactWriteItems(ctx, &asked, o...)
	if err == nil {
		for _, table := range out.ConsumedCapacity {
			m.write(ctx, &table)
		}
	}
	return out, err
}
