package languages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// race acquires the lease and publishes, repeatedly, and counts the errors by name.
func (w *goWorker) race(ctx context.Context, pk string, c command) (any, error) {
	result := run{Published: []publication{}, Errors: make(map[string]int)}
	for n := 0; time.Now().Unix() < c.Race.Deadline; n++ {
		over, err := w.raceOnce(ctx, pk, c, fmt.Sprintf("%s-%d", c.Owner, n), &result)
		if over {
			break
		}
		if err != nil {
			result.Errors[nameOf(err)]++
			if err := w.maybeBreak(ctx, pk, c, err); err != nil {
				result.Errors[nameOf(err)]++
			}
		}
		if err := backoff.Wait(ctx, rand.N(60*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func (w *goWorker) raceOnce(ctx context.Context, pk string, c command, id string, result *run) (over bool, err error) {
	t, err := w.take(ctx, pk, c)
	if err != nil {
		return false, err
	}
	defer func() {
		if over || err != nil { // a successful publish releases the lease
			err = errors.Join(err, w.store.Release(ctx, t.lease))
		}
	}()
	if t.record.Entry.Version >= c.Race.UntilVersion {
		return true, nil
	}
	if c.Race.Counted {
		if err := w.increment(ctx, pk); err != nil {
			return false, err
		}
	}
	next := c.Entry.ISR()
	next.GenerationID, next.BodyKey = id, "bodies/"+id
	published, err := w.publish(ctx, t, next, false)
	if err != nil {
		return false, err
	}
	result.Published = append(result.Published, publication{published.Version, id})
	return false, nil
}

// increment increments the counter in the page's partition with an unconditional read-modify-write.
func (w *goWorker) increment(ctx context.Context, pk string) error {
	key := map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: countSK},
	}
	found, err := w.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &w.table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return err
	}
	count, _ := found.Item["count"].(*types.AttributeValueMemberN)
	if count == nil {
		return errors.New("the page's partition has no counter row")
	}
	n, err := strconv.Atoi(count.Value)
	if err != nil {
		return err
	}
	key["count"] = &types.AttributeValueMemberN{Value: strconv.Itoa(n + 1)}
	_, err = w.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &w.table, Item: key})
	return err
}

// maybeBreak breaks the lease that blocked the acquisition, with the configured probability.
func (w *goWorker) maybeBreak(ctx context.Context, pk string, c command, err error) error {
	if _, held := errors.AsType[*store.HeldError](err); !held || rand.Int64N(100) >= c.Race.Breaks {
		return nil
	}
	read, err := w.store.Read(ctx, pk)
	if err != nil {
		return err
	}
	return w.store.BreakLease(ctx, read)
}
