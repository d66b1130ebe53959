package tabletheory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// DynamoDB's bounds on one BatchWriteItem: writes, and bytes on the wire, which are
// 16 MB including what surrounds the items.
const (
	maxBatchWrite     = 25
	maxBatchWriteSize = 15 << 20
)

// BatchError is an incomplete batch of writes. Completed writes are not undone.
// The batch may be retried as a whole, because all its writes are unconditional.
type BatchError struct {
	// Written is how many of its Total writes are known to have happened.
	Written, Total int
	// Left has the indexes of the other writes in the batch, from 0: puts come
	// first, then deletes. The writes of the last request may have happened.
	Left []int

	cause error
}

// Error returns how much was written.
func (e *BatchError) Error() string {
	return fmt.Sprintf("%d of %d items were written: %v", e.Written, e.Total, e.cause)
}

// Unwrap returns why the batch stopped.
func (e *BatchError) Unwrap() error { return e.cause }

// BatchCreate puts items, a slice of structs, and replaces stored items. A
// batch is not atomic and has no conditions, so a version is not compared. It
// is still incremented: a concurrent writer that has read the replaced item
// gets an [ErrVersionConflict].
//
// Nothing is sent if an item is invalid or appears twice. BatchCreate sends
// requests of up to 25 writes and sends unprocessed writes again, with
// exponential backoff and jitter, until the context is done. A [*BatchError]
// tells how much was written.
func (q *Query) BatchCreate(items any) error {
	const op = "BatchCreate"
	if err := q.begin(op, 0); err != nil {
		return err
	}
	values := reflect.ValueOf(items)
	if values.Kind() == reflect.Pointer && !values.IsNil() {
		values = values.Elem()
	}
	if values.Kind() != reflect.Slice && values.Kind() != reflect.Array {
		return invalid("%s takes a slice of %v, not %s", op, q.model.Type, describe(items))
	}
	puts := make([]any, values.Len())
	for i := range puts {
		item := values.Index(i)
		if item.Kind() == reflect.Struct && item.CanAddr() {
			item = item.Addr() // for its version and times
		}
		puts[i] = item.Interface()
	}
	return q.batchWrite(op, puts, nil)
}

// BatchDelete deletes items by their keys, as [Query.BatchGet] takes them.
// Otherwise it is like [Query.BatchCreate].
func (q *Query) BatchDelete(keys []any) error {
	const op = "BatchDelete"
	if err := q.begin(op, 0); err != nil {
		return err
	}
	return q.batchWrite(op, nil, keys)
}

// BatchWrite puts items and deletes items by their keys; see
// [Query.BatchCreate] and [Query.BatchDelete].
func (q *Query) BatchWrite(puts, deletes []any) error {
	const op = "BatchWrite"
	if err := q.begin(op, 0); err != nil {
		return err
	}
	return q.batchWrite(op, puts, deletes)
}

// batchWrite encodes the whole batch, so that nothing is sent if a part of it is
// invalid, and sends it.
func (q *Query) batchWrite(op string, puts, deletes []any) error {
	b := &batchWrite{Query: q, op: op, total: len(puts) + len(deletes), indexes: make(map[string]int, len(puts)+len(deletes))}
	for i, v := range puts {
		if err := b.put(v); err != nil {
			return fmt.Errorf("tabletheory: %s: item %d to put: %w", op, i, err)
		}
	}
	for i, v := range deletes {
		if err := b.delete(v); err != nil {
			return fmt.Errorf("tabletheory: %s: key %d to delete: %w", op, i, err)
		}
	}
	return b.send(q.ctx)
}

// batchWrite is a batch of writes in progress.
type batchWrite struct {
	*Query
	op      string
	total   int
	indexes map[string]int // in the batch, by identity
	pending []*batched
}

// batched is one write of a batch.
type batched struct {
	index   int
	request types.WriteRequest
	id      string // the identity of its key
	size    int    // in bytes on the wire
	put     *write // nil: a deletion
}

func (b *batchWrite) put(v any) error {
	t, err := b.mapper.target(v)
	if err != nil {
		return err
	}
	if t.model != b.model || t.table != b.table {
		return fmt.Errorf("%w: a %v of table %s in a batch of %v in table %s", ErrInvalidQuery, t.model.Type, t.table, b.model.Type, b.table)
	}
	w, err := t.newWrite(kindPut, nil, nil)
	if err != nil {
		return err
	}
	version, err := w.version()
	if err != nil {
		return err
	}
	if version == math.MaxInt64 {
		return noNextVersion(version)
	}
	if err := w.encodeWhole(b.ctx, version+1); err != nil {
		return err
	}
	return b.add(w.itemKey(), &batched{request: types.WriteRequest{PutRequest: &types.PutRequest{Item: w.item}}, size: itemWireSize(w.item), put: w})
}

func (b *batchWrite) delete(v any) error {
	key, err := b.keyOf(v)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidQuery, err)
	}
	return b.add(key, &batched{request: types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}, size: itemWireSize(key)})
}

func (b *batchWrite) add(key model.Item, item *batched) error {
	item.index, item.id = len(b.pending), b.identity(key)
	if first, taken := b.indexes[item.id]; taken {
		return fmt.Errorf("%w: %s is in the batch already, at %d: a batch can write an item only once", ErrInvalidQuery, b.describe(key), first)
	}
	b.indexes[item.id] = item.index
	b.pending = append(b.pending, item)
	return nil
}

// send sends requests until nothing is pending. Unprocessed writes go first in
// the next request, after a pause that grows while nothing is processed.
func (b *batchWrite) send(ctx context.Context) error {
	attempt := 0
	for len(b.pending) > 0 {
		sent := b.pending[:b.nextSize()]
		unprocessed, err := b.request(ctx, sent)
		if err != nil {
			return b.failed(err)
		}
		b.pending = append(unprocessed, b.pending[len(sent):]...)
		switch len(unprocessed) {
		case 0:
			attempt = 0
			continue
		case len(sent):
			attempt++
		default:
			attempt = 1
		}
		if !waitAfter(ctx, attempt) {
			return b.failed(fmt.Errorf("%w: %w", ErrThrottled, context.Cause(ctx)))
		}
	}
	return nil
}

// nextSize returns how many of the pending writes fit into one request.
func (b *batchWrite) nextSize() int {
	size := 0
	for i, item := range b.pending {
		size += item.size
		if i == maxBatchWrite || i > 0 && size > maxBatchWriteSize {
			return i
		}
	}
	return len(b.pending)
}

// request sends writes and returns the unprocessed ones.
func (b *batchWrite) request(ctx context.Context, sent []*batched) ([]*batched, error) {
	requests := make([]types.WriteRequest, len(sent))
	for i, item := range sent {
		requests[i] = item.request
	}
	if err := errUnsent(ctx); err != nil {
		return nil, err
	}
	out, err := b.api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{b.table: requests}})
	switch {
	case err != nil && errors.Is(sentinelOf(err), ErrThrottled) && ctx.Err() == nil:
		return append([]*batched(nil), sent...), nil // nothing was processed
	case err != nil:
		return nil, err
	}
	left, err := b.unprocessed(out.UnprocessedItems)
	if err != nil {
		return nil, err
	}
	var unprocessed []*batched
	for _, item := range sent {
		switch {
		case left[item.id]:
			unprocessed = append(unprocessed, item)
		case item.put != nil:
			item.put.updateModel()
		}
	}
	return unprocessed, nil
}

// unprocessed returns the identities of the writes that DynamoDB returned.
func (b *batchWrite) unprocessed(returned map[string][]types.WriteRequest) (map[string]bool, error) {
	left := map[string]bool{}
	for table, requests := range returned {
		for _, request := range requests {
			var key model.Item
			switch {
			case request.PutRequest != nil:
				key = request.PutRequest.Item
			case request.DeleteRequest != nil:
				key = request.DeleteRequest.Key
			}
			id := b.identity(key)
			if _, sent := b.indexes[id]; !sent || table != b.table {
				return nil, fmt.Errorf("DynamoDB returned a write that was not sent as unprocessed: %s in table %s", b.describe(key), table)
			}
			left[id] = true
		}
	}
	return left, nil
}

// failed returns the error of an incomplete batch.
func (b *batchWrite) failed(err error) error {
	e := &BatchError{Written: b.total - len(b.pending), Total: b.total, cause: err}
	for _, item := range b.pending {
		e.Left = append(e.Left, item.index)
	}
	return b.failure(b.op, nil, e)
}
