package localdynamo

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// maxBatchLen bounds the writes of one commit, and thereby how long the first
// waits for the others to be evaluated.
const maxBatchLen = 512

// maxBatchBytes bounds the bytes of one commit. The write that reaches it is the
// last of its commit; the rest of the batch goes into the next. It limits memory
// and the latency of small writes behind large ones.
const maxBatchBytes = 16 << 20

// pendingWrite is a write queued for the writer goroutine.
type pendingWrite struct {
	// apply evaluates the write and performs it. If it returns an error it has
	// written nothing, so the rest of the batch is unaffected; the exception is
	// a failure of the store, which ends the whole batch.
	apply func(*transaction) error

	err  error      // returned by apply; the sender reads it after done
	done chan error // receives the outcome of the commit
}

// transaction is the store's transaction, shared by the writes of a batch.
type transaction struct {
	store.Writer
	wrote      bool
	bytes      int              // put so far
	failure    error            // first failure of the store
	tables     catalogue        // includes the changes of earlier writes in the batch
	ownsTables bool             // tables is a copy that may be modified
	tallies    map[string]tally // changes by this batch, by space
	recounts   map[string]bool  // spaces whose tally is to be counted again
	changes    int              // puts, deletions and drops so far
	overlay    *overlay
	volatile   bool // a volatile write, not a batch
}

// Get reads what is volatile, too.
func (tx *transaction) Get(space string, key []byte) []byte {
	if found, ok := tx.overlay.live().Get(volatileItem{space: space, key: key}); ok {
		return found.value
	}
	return tx.Writer.Get(space, key)
}

// currentTable returns the current definition of a table that was looked up
// before the write was queued. Its indexes may have changed since; if it was
// deleted, the error is a *types.ResourceNotFoundException.
func (tx *transaction) currentTable(t *table) (*table, error) {
	now := tx.tables[t.Name]
	if now == nil || now.ID != t.ID {
		return nil, errNotFound()
	}
	return now, nil
}

// tableForUpdate returns a copy of a definition for the caller to modify and
// pass to putTable.
func (tx *transaction) tableForUpdate(name string) (*table, error) {
	t := tx.tables[name]
	if t == nil {
		return nil, errTableNotFound(name)
	}
	return t.clone(), nil
}

// putTable stores a definition. Later writes of the batch see it at once,
// readers after the commit.
func (tx *transaction) putTable(t *table) error {
	if err := tx.closeOverlay(); err != nil {
		return err
	}
	stored, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := tx.Put(tableSpace, []byte(t.Name), stored); err != nil {
		return err
	}
	tx.ownTables()
	tx.tables[t.Name] = t
	return nil
}

// removeTable removes a definition, and abandons the items of the table and the entries
// of its indexes. Later writes of the batch do not find the table.
func (tx *transaction) removeTable(t *table) error {
	if err := tx.closeOverlay(); err != nil {
		return err
	}
	if err := tx.Delete(tableSpace, []byte(t.Name)); err != nil {
		return err
	}
	for _, space := range t.spaces() {
		if err := tx.abandon(space); err != nil {
			return err
		}
	}
	tx.ownTables()
	delete(tx.tables, t.Name)
	return nil
}

// ownTables replaces tables by a copy that this batch may modify.
func (tx *transaction) ownTables() {
	if !tx.ownsTables {
		tx.tables, tx.ownsTables = maps.Clone(tx.tables), true
	}
}

// Put stores a value and records a failure of the store.
func (tx *transaction) Put(space string, key, value []byte) error {
	tx.noteChange()
	tx.bytes += len(value)
	return tx.noteFailure(tx.Writer.Put(space, key, value))
}

// Delete deletes a key and records a failure of the store.
func (tx *transaction) Delete(space string, key []byte) error {
	tx.noteChange()
	return tx.noteFailure(tx.Writer.Delete(space, key))
}

// Drop removes a space and records a failure of the store.
func (tx *transaction) Drop(space string) error {
	tx.noteChange()
	return tx.noteFailure(tx.Writer.Drop(space))
}

func (tx *transaction) noteChange() {
	tx.wrote = true
	tx.changes++
}

func (tx *transaction) noteFailure(err error) error {
	if err != nil && tx.failure == nil {
		tx.failure = err
	}
	return err
}

// submit queues a write and returns when it is on disk or has failed. If ctx is
// done before the writer accepts the write, the write is withdrawn. After that
// submit ignores ctx and waits for the outcome, which always comes.
func (db *DB) submit(ctx context.Context, apply func(*transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &pendingWrite{apply: apply, done: make(chan error, 1)}
	select {
	case db.pending <- r:
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

// runWriter is the writer goroutine. Each round commits the writes that were
// queued during the last commit.
func (db *DB) runWriter() {
	batch := make([]*pendingWrite, 0, maxBatchLen)
	for {
		select {
		case r := <-db.pending:
			select {
			case db.committing <- struct{}{}:
			default:
			}
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

// gather adds the writes that are already queued. It yields once, because
// goroutines woken by the last commit are about to send their next write.
func (db *DB) gather(batch []*pendingWrite) []*pendingWrite {
	yielded := false
	for len(batch) < maxBatchLen {
		select {
		case r := <-db.pending:
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

// errNoWrites makes the store roll back a transaction that wrote nothing.
var errNoWrites = errors.New("nothing to commit")

// closeOverlay has volatile writes wait for the batch, which changes a table definition.
func (tx *transaction) closeOverlay() error {
	tx.overlay.closed = true
	return tx.keepAll()
}

// evaluate evaluates a write of the batch. If it meets a damaged value, it fails alone, unless it
// has written something.
func (tx *transaction) evaluate(r *pendingWrite) (err error) {
	tx.overlay.mu.Lock()
	defer tx.overlay.mu.Unlock()
	before := tx.changes
	damage := store.Catch(func() { err = r.apply(tx) })
	if damage == nil {
		return err
	}
	if tx.changes > before {
		return tx.noteFailure(damage)
	}
	return damage
}

// commit evaluates the first n writes in order, each seeing the effects of the
// earlier ones, and commits them in one transaction; n is less than the batch
// only if maxBatchBytes is reached. The error applies to each of the n: even a
// failed condition may have depended on a write that is now rolled back.
//
// If we crash before the store's commit returns, none of the writes has been
// acknowledged, and the file holds all of them or none. After it returns, all
// are on disk; only then are they acknowledged.
func (db *DB) commit(batch []*pendingWrite) (n int, err error) {
	tx := &transaction{tables: *db.tables.Load(), overlay: &db.overlay}
	defer func() { db.overlay.end(err == nil) }() // before the writes are acknowledged
	err = db.store.Update(func(w store.Writer) error {
		tx.Writer = w
		for n < len(batch) && tx.bytes < maxBatchBytes {
			r := batch[n]
			n++
			r.err = tx.evaluate(r)
			if tx.failure != nil {
				return tx.failure
			}
		}
		if !tx.wrote {
			return errNoWrites
		}
		return tx.putTallies()
	})
	if errors.Is(err, errNoWrites) {
		return n, nil
	}
	if err != nil && n == 0 {
		return len(batch), err // the store could not begin a transaction; the rest would fail too
	}
	if err == nil && tx.ownsTables {
		db.tables.Store(&tx.tables)
	}
	return n, err
}
