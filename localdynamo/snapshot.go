package localdynamo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// errNoFile is the error of operations on the file of a DB in memory.
var errNoFile = errors.New("localdynamo: the tables are in memory and have no file")

// Snapshot calls start once with the size of the file, in bytes, and writes a copy of the file to the writer that start
// returns: all writes that were acknowledged before the call, and no part of a write. Open opens
// such a copy. Requests go on, but while the copy is written the file does not reuse space, and so
// grows by what is written. Volatile writes that no durable write depends on are not in it.
//
// The copy has what the file has, including damage: see [DB.Verify].
func (db *DB) Snapshot(ctx context.Context, start func(size int64) (io.Writer, error)) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	file, ok := db.store.(*store.Bolt)
	if !ok {
		return errNoFile
	}
	err := file.Snapshot(func(size int64, write func(io.Writer) error) error {
		w, err := start(size)
		if err != nil {
			return err
		}
		return write(&contextWriter{ctx, w})
	})
	if err != nil {
		return fmt.Errorf("localdynamo: copy %s: %w", db.path, err)
	}
	return nil
}

// A contextWriter fails once its context is done.
type contextWriter struct {
	ctx context.Context
	to  io.Writer
}

func (w *contextWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}
