package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A laggingEngine answers eventually consistent reads as DynamoDB may: with the result of
// an earlier read of the same rows. Only the driver calls it.
type laggingEngine struct {
	Engine
	w       *world
	items   map[string]answer[dynamodb.GetItemOutput]
	queries map[string]answer[dynamodb.QueryOutput]
	scans   map[string]answer[dynamodb.ScanOutput]
}

func newLaggingEngine(w *world) *laggingEngine {
	return &laggingEngine{
		Engine: w.engine, w: w,
		items:   make(map[string]answer[dynamodb.GetItemOutput]),
		queries: make(map[string]answer[dynamodb.QueryOutput]),
		scans:   make(map[string]answer[dynamodb.ScanOutput]),
	}
}

// An answer is the result of a read, and its time.
type answer[T any] struct {
	out *T
	at  time.Time
}

// longestLag bounds the age of the result of an eventually consistent read.
const longestLag = 5 * time.Second

// GetItem implements [dynamostore.API].
func (e *laggingEngine) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...options) (*dynamodb.GetItemOutput, error) {
	out, err := e.Engine.GetItem(ctx, in, o...)
	return lagging(e.w, e.items, question(in.Key, ""), in.ConsistentRead, out, err)
}

// Query implements [dynamostore.API].
func (e *laggingEngine) Query(ctx context.Context, in *dynamodb.QueryInput, o ...options) (*dynamodb.QueryOutput, error) {
	out, err := e.Engine.Query(ctx, in, o...)
	// An old page must not continue with a new one.
	q := question(in.ExpressionAttributeValues, aws.ToString(in.KeyConditionExpression)+aws.ToString(in.ProjectionExpression)+question(in.ExclusiveStartKey, ""))
	return lagging(e.w, e.queries, q, in.ConsistentRead, out, err)
}

// Scan implements [dynamostore.API].
func (e *laggingEngine) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...options) (*dynamodb.ScanOutput, error) {
	out, err := e.Engine.Scan(ctx, in, o...)
	q := question(in.ExpressionAttributeValues, aws.ToString(in.FilterExpression)+fmt.Sprint(aws.ToInt32(in.Segment))+question(in.ExclusiveStartKey, ""))
	return lagging(e.w, e.scans, q, in.ConsistentRead, out, err)
}

// question identifies a read by its parameters.
func question(values item, rest string) string {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch v := values[name].(type) {
		case *types.AttributeValueMemberS:
			rest += "|" + v.Value
		case *types.AttributeValueMemberN:
			rest += "|" + v.Value
		}
	}
	return rest
}

// lagging returns the result of a read. It keeps each result, which a later read may
// return.
func lagging[T any](w *world, before map[string]answer[T], question string, strong *bool, now *T, err error) (*T, error) {
	if err != nil {
		return now, err
	}
	if !aws.ToBool(strong) {
		w.counts["weak read"]++
		if old := before[question]; old.out != nil && time.Since(old.at) < w.pace.of(longestLag) && w.rng.IntN(3) > 0 {
			w.log("  answered with an old result")
			w.counts["weak read of the past"]++
			return old.out, nil
		}
	}
	before[question] = answer[T]{now, time.Now()}
	return now, nil
}
