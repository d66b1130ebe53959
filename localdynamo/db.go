package localdynamo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
)

// DefaultSweepInterval is how often expired items are looked for by default.
// A sweep reads the whole of every table with TTL enabled.
const DefaultSweepInterval = 10 * time.Minute

// Options of a DB. The zero value is the one to use outside of tests.
type Options struct {
	// Now is the clock that decides when an item or a request token has
	// expired, and that dates tables. The default is time.Now. It must be
	// safe for concurrent use.
	Now func() time.Time

	// SweepInterval is the time between two sweeps for expired items. Zero
	// means DefaultSweepInterval; if it is negative, only calls of Sweep
	// remove expired items.
	SweepInterval time.Duration

	// NoSync leaves out every fsync. A crash of the machine may then lose or
	// damage everything; a crash of the process alone loses nothing. For tests.
	NoSync bool
}

// DB is an open file, or the memory that stands in for one. Its methods may be
// called concurrently.
type DB struct {
	path        string // for messages
	now         func() time.Time
	store       store.Store
	tables      atomic.Pointer[catalogue] // replaced by the writer goroutine only
	expressions expr.Cache

	requests chan *request // unbuffered: whoever has sent has been picked up
	unfilled chan struct{} // holds one element if an index was added
	closing  chan struct{} // closed by Close
	close    sync.Once
	closeErr error // written inside close
	tasks    sync.WaitGroup
}

// Open opens the file at path, or creates it if there is none; its folder
// must exist. A file that an older version wrote is made one of this version,
// which older ones then refuse. Errors wrap ErrLocked, ErrCorrupt or ErrFormat,
// or are those of the file system. Whatever the error, an existing file keeps
// its format and all that it holds.
func Open(path string, opts Options) (*DB, error) {
	s, err := store.Open(path, opts.NoSync)
	if err != nil {
		return nil, fmt.Errorf("localdynamo: open %s: %w%s", path, err, advice(path, err))
	}
	db, err := newDB(path, s, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("localdynamo: open %s: %w", path, err), s.Close())
	}
	return db, nil
}

// OpenMemory returns an empty DB that keeps nothing: it is gone once it is
// closed. Options.NoSync is without effect. A bubble of testing/synctest can
// hold it, if it is closed before the bubble ends.
func OpenMemory(opts Options) *DB {
	return start("in memory", &store.Memory{}, catalogue{}, opts)
}

// advice says what the person who reads err may do.
func advice(path string, err error) string {
	switch {
	case errors.Is(err, ErrLocked):
		return "; stop that process, or use another file"
	case errors.Is(err, ErrCorrupt):
		return "; restore it from a copy, or move it away to start afresh"
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("; create the folder %s first", filepath.Dir(path))
	case isFull(err):
		return "; make room on that disk"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("; the file and its folder %s must be writable", filepath.Dir(path))
	}
	return ""
}

// isFull says that there is no room on the disk. bbolt keeps of some errors the text
// alone.
func isFull(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

func newDB(path string, s store.Store, opts Options) (*DB, error) {
	var tables catalogue
	err := s.View(func(r store.Reader) error {
		var err error
		tables, err = readCatalogue(r)
		return err
	})
	if err == nil {
		err = tallyAll(s, tables)
	}
	if err != nil {
		return nil, err
	}
	return start(path, s, tables, opts), nil
}

// start returns a DB on the store, which has these tables, and sets its
// goroutines going.
func start(path string, s store.Store, tables catalogue, opts Options) *DB {
	db := &DB{
		path:     path,
		now:      opts.Now,
		store:    s,
		requests: make(chan *request),
		unfilled: make(chan struct{}, 1),
		closing:  make(chan struct{}),
	}
	if db.now == nil {
		db.now = time.Now
	}
	db.tables.Store(&tables)
	db.tasks.Go(db.write)
	db.tasks.Go(db.backfill)
	interval := opts.SweepInterval
	if interval == 0 {
		interval = DefaultSweepInterval
	}
	if interval > 0 {
		db.tasks.Go(func() { db.sweepEvery(interval) })
	}
	return db
}

// Close waits for the requests that have been picked up, and closes the file.
// Requests after it, and those not picked up, get ErrClosed.
func (db *DB) Close() error {
	db.close.Do(func() {
		close(db.closing)
		db.tasks.Wait()
		db.closeErr = db.store.Close()
	})
	return db.closeErr
}

// ready reports why a read cannot begin.
func (db *DB) ready(ctx context.Context) error {
	select {
	case <-db.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// view runs fn on a snapshot. An error of fn that is not one of the API's is a
// failure of the store.
func (db *DB) view(ctx context.Context, fn func(store.Reader) error) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	err := db.store.View(fn)
	var answer smithy.APIError
	if err == nil || errors.As(err, &answer) {
		return err // the request's own
	}
	if closed := db.ready(ctx); closed != nil {
		return closed // while we were on our way to the store
	}
	return db.internal(err)
}
