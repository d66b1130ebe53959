package localdynamo

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// maxBatch bounds how many requests share one commit, and with it how long
// the first of them waits for the others to be evaluated.
const maxBatch = 512

// maxBatchBytes bounds what one commit writes: it ends with the request that
// reaches it, and the others go into the next. It bounds memory, and the wait
// of whoever has only a little to write.
const maxBatchBytes = 16 << 20

// request is one write on its way to the writer goroutine.
type request struct {
	// apply evaluates the request and writes. If it returns an error it has
	// written nothing, so that others in the batch are not affected; the
	// exception is a failure of the store, which ends the whole batch.
	apply func(*transaction) error

	err  error      // what apply returned; read by the sender after done
	done chan error // gets the outcome of the batch
}

// transaction is the store's transaction, shared by the requests of a batch.
type transaction struct {
	store.Writer
	wrote   bool
	bytes   int              // put so far
	failure error            // of the store
	tables  catalogue        // as the requests before this one in the batch left them
	defined bool             // whether tables differs from the DB's
	tallies map[string]tally // what the batch adds to those that are stored, by space
}

// table returns the present definition of a table that was looked up before
// its request was queued: since then it may have been given indexes, or have
// been deleted.
func (tx *transaction) table(t *table) (*table, error) {
	now := tx.tables[t.Name]
	if now == nil || now.ID != t.ID {
		return nil, notFound()
	}
	return now, nil
}

// changing returns a copy of a definition, to be changed and given to putTable.
func (tx *transaction) changing(name string) (*table, error) {
	t := tx.tables[name]
	if t == nil {
		return nil, noTable(name)
	}
	return t.clone(), nil
}

// putTable stores a definition. Other requests of the batch see it at once,
// readers when it is on disk.
func (tx *transaction) putTable(t *table) error {
	stored, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := tx.Put(tableSpace, []byte(t.Name), stored); err != nil {
		return err
	}
	tx.redefine()
	tx.tables[t.Name] = t
	return nil
}

// removeTable removes a definition, and all that the table and its indexes
// hold. Requests for the table that come later in the batch do not find it.
func (tx *transaction) removeTable(t *table) error {
	if err := tx.Delete(tableSpace, []byte(t.Name)); err != nil {
		return err
	}
	for _, space := range t.spaces() {
		if err := tx.dropSpace(space); err != nil {
			return err
		}
	}
	tx.redefine()
	delete(tx.tables, t.Name)
	return nil
}

// redefine makes tables this batch's own.
func (tx *transaction) redefine() {
	if !tx.defined {
		tx.tables, tx.defined = maps.Clone(tx.tables), true
	}
}

// Put writes, and remembers a failure.
func (tx *transaction) Put(space string, key, value []byte) error {
	tx.wrote = true
	tx.bytes += len(value)
	return tx.note(tx.Writer.Put(space, key, value))
}

// Delete deletes, and remembers a failure.
func (tx *transaction) Delete(space string, key []byte) error {
	tx.wrote = true
	return tx.note(tx.Writer.Delete(space, key))
}

// Drop removes a whole space, and remembers a failure.
func (tx *transaction) Drop(space string) error {
	tx.wrote = true
	return tx.note(tx.Writer.Drop(space))
}

func (tx *transaction) note(err error) error {
	if err != nil && tx.failure == nil {
		tx.failure = err
	}
	return err
}

// submit hands a write to the writer goroutine and returns when it is on disk
// or has failed. A context that ends before the request is picked up takes it
// back; after that the answer is waited for, since there will be one.
func (db *DB) submit(ctx context.Context, apply func(*transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{apply: apply, done: make(chan error, 1)}
	select {
	case db.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
	if err := <-r.done; err != nil {
		return db.internal(err)
	}
	if errors.Is(r.err, ErrCorrupt) {
		return db.internal(r.err)
	}
	return r.err
}

// write is the writer goroutine: it commits whatever has gathered while the
// last commit was under way.
func (db *DB) write() {
	batch := make([]*request, 0, maxBatch)
	for {
		select {
		case r := <-db.requests:
			batch = db.gather(append(batch[:0], r))
			for rest := batch; len(rest) > 0; {
				n, err := db.commit(rest)
				for _, r := range rest[:n] {
					r.done <- err
				}
				rest = rest[n:]
			}
			clear(batch)
		case <-db.closing:
			return
		}
	}
}

// gather adds the requests that wait already. It lets other goroutines run
// once: those that the last commit has just woken are about to send.
func (db *DB) gather(batch []*request) []*request {
	yielded := false
	for len(batch) < maxBatch {
		select {
		case r := <-db.requests:
			batch = append(batch, r)
			continue
		default:
		}
		if yielded {
			break
		}
		yielded = true
		runtime.Gosched()
	}
	return batch
}

// errNothing makes the store roll back a transaction that wrote nothing.
var errNothing = errors.New("nothing to commit")

// commit evaluates the first n requests one after the other, each seeing what
// those before it wrote, and commits them as one; n is all of them, unless they
// write too much. Its error is that of each of the n: even a condition that
// failed may have failed on account of a write that is now undone.
//
// If we crash before the store's commit returns, none of them has been
// answered, and the file holds all of their writes or nothing. After it, all
// is on disk, and only then does anyone hear of it.
func (db *DB) commit(batch []*request) (n int, err error) {
	tx := &transaction{tables: *db.tables.Load()}
	err = db.store.Update(func(w store.Writer) error {
		tx.Writer = w
		for n < len(batch) && tx.bytes < maxBatchBytes {
			r := batch[n]
			n++
			r.err = r.apply(tx)
			if tx.failure != nil {
				return tx.failure
			}
		}
		if !tx.wrote {
			return errNothing
		}
		return tx.putTallies()
	})
	if errors.Is(err, errNothing) {
		return n, nil
	}
	if err != nil && n == 0 {
		return len(batch), err // the store could not even begin, and would not for the rest
	}
	if err == nil && tx.defined {
		db.tables.Store(&tx.tables)
	}
	return n, err
}
