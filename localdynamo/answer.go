package localdynamo

import (
	"context"
	"errors"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// viewForAnswer is view for a read whose response may be metered (see package answer). fn is called
// again if the response does not fit: it must begin anew. largest then bounds the stored bytes of
// all items that fn adds to the meter.
func (db *DB) viewForAnswer(ctx context.Context, largest func() int, fn func(store.Reader, *answer.Meter) error) error {
	meter := answer.From(ctx)
	full := false
	read := func() error {
		return db.view(ctx, func(r store.Reader) error {
			err := fn(r, meter)
			if full = errors.Is(err, answer.ErrFull); full {
				return nil // no failure of the store
			}
			return err
		})
	}
	if err := read(); err != nil || !full {
		return err
	}
	if err := reserve(ctx, meter, meter.Estimate(largest())); err != nil {
		return err
	}
	if err := read(); err != nil || !full {
		return err
	}
	if err := reserve(ctx, meter, math.MaxInt); err != nil {
		return err
	}
	return read()
}

// noMore is for reads that add one item: what was added is all.
func noMore() int { return 0 }

// reserve waits until a response of this many bytes fits into the budget.
func reserve(ctx context.Context, meter *answer.Meter, room int) error {
	err := meter.Reserve(ctx, room)
	if errors.Is(err, answer.ErrBusy) {
		return &types.ThrottlingException{Message: aws.String("The responses to all requests in flight exceed the memory limit; retry later, or read less at a time")}
	}
	return err
}

// addItem adds a decoded item of stored bytes to the response. The error is answer.ErrFull if it
// does not fit.
func addItem(meter *answer.Meter, item map[string]types.AttributeValue, stored int) error {
	if meter != nil && !meter.Add(value.Weight(item), stored) {
		return answer.ErrFull
	}
	return nil
}

// reserveReturned waits until the items that writes return fit into the budget. After a write it
// would be too late to refuse it. What the items become is not known; they are taken to be
// as large as they are now together with what the request adds.
func (db *DB) reserveReturned(ctx context.Context, mutations ...*mutation) error {
	meter := answer.From(ctx)
	if meter == nil {
		return nil
	}
	size := 0
	err := db.view(ctx, func(r store.Reader) error {
		for _, m := range mutations {
			var stored []byte
			// A damaged item is for the write to report.
			_ = store.Catch(func() { stored = r.Get(m.table.space(), m.key) })
			size += len(stored) + min(m.payload, value.MaxItemSize)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return reserve(ctx, meter, answer.Inflation*size)
}
