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
	"golang.org/x/sync/singleflight"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
)

// DefaultSweepInterval is the default time between sweeps for expired items.
// A sweep scans every table that has TTL enabled.
const DefaultSweepInterval = 10 * time.Minute

// Options configures a DB. Outside of tests, use the zero value.
type Options struct {
	// Now is the clock for the expiry of items and request tokens, and for
	// the creation dates of tables. The default is time.Now. It must be safe
	// for concurrent use.
	Now func() time.Time

	// SweepInterval is the time between sweeps for expired items. Zero means
	// DefaultSweepInterval. If it is negative, expired items are removed only
	// by calls of Sweep.
	SweepInterval time.Duration

	// NoSync disables fsync. A crash of the machine may then lose or corrupt
	// the file; a crash of the process alone loses nothing. For tests.
	NoSync bool
}

// DB is an embedded DynamoDB, in a file or in memory. It is safe for concurrent
// use.
type DB struct {
	path        string // for error messages
	now         func() time.Time
	store       store.Store
	tables      atomic.Pointer[catalogue] // replaced by the writer goroutine only
	overlay     overlay
	expressions expr.Cache
	splits      sync.Map // of *splits, by space; those that were used
	splitting   singleflight.Group

	pending      chan *pendingWrite // unbuffered: a completed send means that the writer has it
	backfillWake wakeUp             // an index was added
	removalWake  wakeUp             // a space was abandoned
	committing   chan struct{}      // holds one element if a commit has begun
	closing      chan struct{}      // closed by Close
	closeOnce    sync.Once
	closeErr     error // set by closeOnce
	tasks        sync.WaitGroup
}

// Open opens the file at path, and creates it if it does not exist; the folder
// must exist. A file of an older version is upgraded, and older versions then
// refuse it. Errors wrap ErrLocked, ErrCorrupt, ErrFormat or an error of the
// file system. After an error, an existing file is unchanged.
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

// OpenMemory returns an empty DB in memory; Close discards its contents.
// Options.NoSync has no effect. It may be used in a testing/synctest bubble if
// it is closed before the bubble ends.
func OpenMemory(opts Options) *DB {
	return start("in memory", &store.Memory{}, catalogue{}, opts)
}

// advice returns what an operator can do about err, as a suffix of its text.
func advice(path string, err error) string {
	switch {
	case errors.Is(err, ErrLocked):
		return "; stop that process, or use another file"
	case errors.Is(err, ErrCorrupt):
		return "; restore it from a backup (isr restore), or move it away to start with an empty file"
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("; create the folder %s first", filepath.Dir(path))
	case isFull(err):
		return "; free space on that disk"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("; the file and its folder %s must be writable", filepath.Dir(path))
	}
	return ""
}

// isFull reports whether err means that the disk or quota is full, or the file
// too large. It also compares texts, because bbolt flattens some errors to text.
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
		return errors.Join(err, checkSpaces(r, tables))
	})
	if err == nil {
		err = addMissingTallies(s, tables)
	}
	if err != nil {
		return nil, err
	}
	return start(path, s, tables, opts), nil
}

// start returns a DB on a store that holds these tables, and starts its
// goroutines.
func start(path string, s store.Store, tables catalogue, opts Options) *DB {
	db := &DB{
		path:         path,
		now:          opts.Now,
		store:        s,
		pending:      make(chan *pendingWrite),
		backfillWake: make(wakeUp, 1),
		removalWake:  make(wakeUp, 1),
		committing:   make(chan struct{}, 1),
		closing:      make(chan struct{}),
	}
	if db.now == nil {
		db.now = time.Now
	}
	db.tables.Store(&tables)
	db.overlay.init()
	db.tasks.Go(db.runWriter)
	db.tasks.Go(func() { db.runTask(db.backfillWake, db.backfillAll) })
	db.tasks.Go(func() { db.runTask(db.removalWake, db.removeAbandoned) })
	interval := opts.SweepInterval
	if interval == 0 {
		interval = DefaultSweepInterval
	}
	if interval > 0 {
		db.tasks.Go(func() { db.runSweeps(interval) })
	}
	return db
}

// Close waits for the writes that the writer has accepted, and closes the file.
// Later requests, and writes not yet accepted, get ErrClosed. Further calls
// return the first call's error.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		db.tasks.Wait()
		db.overlay.drain() // volatile writes that began before closing
		db.closeErr = errors.Join(db.settle(), db.store.Close())
	})
	return db.closeErr
}

// Committing returns a channel for one receiver, which gets a value when a commit begins. Commits
// that begin before it is received add no other. While a commit is synced, a goroutine waits
// in a system call.
func (db *DB) Committing() <-chan struct{} { return db.committing }

// ready returns ErrClosed if the DB is closed, or the error of ctx.
func (db *DB) ready(ctx context.Context) error {
	select {
	case <-db.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// view runs fn on a snapshot, with what is volatile. An error of fn that is not a smithy.APIError is
// treated as a failure of the store.
func (db *DB) view(ctx context.Context, fn func(store.Reader) error) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	err := db.snapshot(fn)
	var answer smithy.APIError
	if err == nil || errors.As(err, &answer) {
		return err // belongs to the request
	}
	if closed := db.ready(ctx); closed != nil {
		return closed // Close ran between the first check and View
	}
	return db.internal(err)
}
