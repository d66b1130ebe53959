package localdynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Volatile is a DB whose PutItem, UpdateItem and DeleteItem do not wait for the disk. All
// else of it is the DB's, and all requests of both see its writes at once, in one order.
//
// If the process or the machine crashes, such a write may be lost, but never after a later
// durable write of the same item was acknowledged: what a durable write depended on, such as
// its condition, is on disk with it. Close writes the rest.
//
// It is for items that are of no use once this process has ended, such as the leases that the
// process itself holds. Leases of other processes, which reach the engine over HTTP, must
// outlive this process, and so need the DB.
//
// A write waits for the disk nevertheless while a durable write of the same item, or of a table
// definition, is in progress; for tables with secondary indexes; after a failure of the disk,
// until a durable write succeeds; and while there are 4,096 items that are not on disk.
type Volatile struct{ *DB }

// Volatile returns the DB for writes that may be lost in a crash.
func (db *DB) Volatile() Volatile { return Volatile{db} }

// PutItem is [DB.PutItem] without waiting for the disk.
func (v Volatile) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return v.putItem(ctx, in, v.mutateVolatile)
}

// UpdateItem is [DB.UpdateItem] without waiting for the disk.
func (v Volatile) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return v.updateItem(ctx, in, v.mutateVolatile)
}

// DeleteItem is [DB.DeleteItem] without waiting for the disk.
func (v Volatile) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return v.deleteItem(ctx, in, v.mutateVolatile)
}

// errMustWait means that a volatile write has to be a durable one.
var errMustWait = errors.New("the write has to wait for the disk")

// mutateVolatile evaluates a planned write in the caller's goroutine, and keeps its effect in
// the overlay. If we crash here, the write is lost.
//
// It is ordered before the batch in progress, which has not been acknowledged, and has not
// touched this item yet.
func (db *DB) mutateVolatile(ctx context.Context, m *mutation) (e effect, err error) {
	if err = db.evaluateVolatile(ctx, m, &e); errors.Is(err, errMustWait) {
		return db.mutateDurably(ctx, m)
	}
	return e, err
}

func (db *DB) evaluateVolatile(ctx context.Context, m *mutation, e *effect) error {
	o := &db.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := db.ready(ctx); err != nil {
		return err
	}
	tables := *db.tables.Load()
	if t := tables[m.table.Name]; t == nil || len(t.Indexes) > 0 || !o.accepts(m.table.space(), m.key) {
		return errMustWait
	}
	var evaluated error
	err := db.store.View(func(r store.Reader) error {
		w := &volatileWriter{Reader: r, overlay: o, live: o.live().Copy()}
		tx := &transaction{Writer: w, overlay: o, volatile: true, tables: tables}
		if *e, evaluated = m.evaluate(tx); evaluated != nil {
			return nil
		}
		if evaluated = m.apply(tx, *e); evaluated == nil && w.changed {
			o.publish(w.live, o.layers.Load().adopted, o.layers.Load().version)
		}
		return nil
	})
	if err != nil {
		return db.internal(err)
	}
	if errors.Is(evaluated, ErrCorrupt) {
		return db.internal(evaluated)
	}
	return evaluated
}

// A volatileWriter is the store as a volatile write sees and changes it.
type volatileWriter struct {
	store.Reader
	overlay *overlay
	live    *volatileTree // a copy of the overlay's
	changed bool
}

func (w *volatileWriter) Put(space string, key, item []byte) error {
	w.live.Set(volatileItem{space: space, key: key, value: item})
	w.changed = true
	return nil
}

// Delete leaves a mark only if the file has the item.
func (w *volatileWriter) Delete(space string, key []byte) error {
	item := volatileItem{space: space, key: key}
	if w.Get(space, key) == nil {
		w.live.Delete(item)
	} else {
		w.live.Set(item)
	}
	w.changed = true
	return nil
}

func (w *volatileWriter) Drop(string) error { return errMustWait } // no write of one item does that

// mutateDurably queues a planned write for the next commit.
func (db *DB) mutateDurably(ctx context.Context, m *mutation) (e effect, err error) {
	err = db.submit(ctx, func(tx *transaction) error {
		if tx.overlay.full() {
			if err := tx.keepAll(); err != nil {
				return err
			}
		}
		var err error
		if e, err = m.evaluate(tx); err != nil {
			return err
		}
		return m.apply(tx, e)
	})
	return e, err
}

// touch is called before the batch reads an item of a table, to write it or because another
// write depends on it.
func (tx *transaction) touch(space string, key []byte) {
	if !tx.volatile {
		tx.overlay.touched[itemName(space, key)] = struct{}{}
	}
}

// adopt is called before the batch writes an item that it has touched: it ends the item's
// volatile write, if there is one. It returns the item in the file, to which a tally refers;
// before is the item that the batch has read.
func (tx *transaction) adopt(space string, key []byte, before value.Item) value.Item {
	if tx.volatile || !tx.overlay.adopt(volatileItem{space: space, key: key}, tx.Version()) {
		return before
	}
	tx.wrote = true // the commit ends the volatile write, also if the file need not change
	var stored []byte
	if damage := store.Catch(func() { stored = tx.Writer.Get(space, key) }); damage != nil {
		_ = tx.Delete(space, key) // a failure ends the batch
		tx.recount(space)
	}
	return value.Item(stored)
}

// keep writes a volatile item with the batch, which depends on it.
func (tx *transaction) keep(item volatileItem) error {
	before := tx.adopt(item.space, item.key, "")
	tx.updateTally(item.space, before, value.View(item.value))
	if item.value == nil {
		return tx.Delete(item.space, item.key)
	}
	return tx.Put(item.space, item.key, item.value)
}

// keepItem writes an item with the batch if it is volatile.
func (tx *transaction) keepItem(space string, key []byte) error {
	item, ok := tx.overlay.live().Get(volatileItem{space: space, key: key})
	if !ok {
		return nil
	}
	return tx.keep(item)
}

// keepAll writes all that is volatile with the batch.
func (tx *transaction) keepAll() error {
	for _, item := range tx.overlay.live().Items() {
		tx.touch(item.space, item.key)
		if err := tx.keep(item); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is volatile, and returns when it is on disk or has failed.
func (db *DB) flush(ctx context.Context) error {
	return db.submit(ctx, (*transaction).keepAll)
}
