package tabletheory

import (
	"context"
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// TransactGet reads up to 100 items of any tables as a consistent snapshot. read
// states the reads; its error is returned, wrapped, and nothing is read. On an
// error all destinations are unchanged. A conflict with a write transaction is
// retried up to [WithRetries] times, and is then a [*TransactionError].
func (db *DB) TransactGet(ctx context.Context, read func(tx *TransactionReader) error) error {
	tx := &TransactionReader{mapper: db.mapper, items: map[string]bool{}}
	if err := read(tx); err != nil {
		return fmt.Errorf("tabletheory: build a read transaction: %w", err)
	}
	switch {
	case tx.err != nil:
		return tx.err
	case len(tx.reads) == 0:
		return invalid("TransactGet without reads: call Get")
	}
	return tx.execute(ctx)
}

// TransactionReader collects the reads of one transaction, 1 to 100.
type TransactionReader struct {
	*mapper
	reads []transactionRead
	items map[string]bool // identities of the items
	err   error           // the first error
}

type transactionRead struct {
	action
	into  reflect.Value
	found *bool
}

// Get reads the item with the key of dest, a pointer to a struct, into dest. If
// the item does not exist, dest is unchanged. found, if it is not nil, is set
// to whether the item exists.
func (tx *TransactionReader) Get(dest any, found *bool) *TransactionReader {
	if tx.err == nil {
		tx.err = tx.add(dest, found)
	}
	return tx
}

func (tx *TransactionReader) add(dest any, found *bool) error {
	if len(tx.reads) == maxActions {
		return invalid("TransactGet reads at most %d items: split it if they need not be one snapshot", maxActions)
	}
	t, err := tx.target(dest)
	if err != nil {
		return err
	}
	if !t.value.CanSet() {
		return invalid("read %d of TransactGet reads into a *%v, not %s", len(tx.reads), t.model.Type, describe(dest))
	}
	key, err := t.model.EncodeKey(t.value)
	if err != nil {
		return invalid("read %d of TransactGet: %w", len(tx.reads), err)
	}
	id := t.identity(key)
	if tx.items[id] {
		return invalid("read %d of TransactGet: %s is read twice, which DynamoDB does not allow", len(tx.reads), t.describe(key))
	}
	tx.items[id] = true
	tx.reads = append(tx.reads, transactionRead{action: action{target: t, kind: "get", key: key}, into: t.value, found: found})
	return nil
}

func (tx *TransactionReader) execute(ctx context.Context) error {
	in := &dynamodb.TransactGetItemsInput{}
	actions := make([]action, len(tx.reads))
	for i, read := range tx.reads {
		actions[i] = read.action
		in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: &read.table, Key: read.key}})
	}
	var out *dynamodb.TransactGetItemsOutput
	err := tx.retry(ctx, func() (err error) {
		out, err = tx.api.TransactGetItems(ctx, in)
		return err
	})
	if err != nil {
		return transactionFailure("transactional get", actions, err)
	}
	if len(out.Responses) != len(tx.reads) {
		return transactionFailure("transactional get", actions, fmt.Errorf("DynamoDB returned %d items, want %d", len(out.Responses), len(tx.reads)))
	}
	return tx.store(ctx, out.Responses)
}

// store decodes all items before it stores any.
func (tx *TransactionReader) store(ctx context.Context, responses []types.ItemResponse) error {
	decoded := make([]reflect.Value, len(tx.reads)) // invalid where there is no item
	for i, read := range tx.reads {
		item := model.Item(responses[i].Item)
		if len(item) == 0 {
			continue
		}
		decoded[i] = reflect.New(read.model.Type).Elem()
		if err := read.decode(ctx, item, decoded[i]); err != nil {
			return err
		}
	}
	for i, read := range tx.reads {
		if decoded[i].IsValid() {
			read.into.Set(decoded[i])
		}
		if read.found != nil {
			*read.found = decoded[i].IsValid()
		}
	}
	return nil
}
