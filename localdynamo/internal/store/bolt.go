package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long Open waits for another process to let go of the file:
// long enough for one that is just exiting, short enough to be "at once".
const lockWait = 100 * time.Millisecond

// mapSize is the address space that is reserved for the file up front. As
// long as the file fits, growing it never has to wait for readers.
const mapSize = 16 << 30

// Bolt is a Store on one bbolt file.
type Bolt struct {
	db     *bolt.DB
	broken error // set by Update, which is for one goroutine at a time
}

var _ Store = (*Bolt)(nil)

// Open opens the file at path, creating it if there is none, and raises one of
// an older format to Format. The folder must exist. With noSync nothing
// survives a crash of the machine.
func Open(path string, noSync bool) (*Bolt, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = create(path)
	}
	if err != nil {
		return nil, err
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	db, err := open(path, noSync)
	if err != nil {
		return nil, err
	}
	b := &Bolt{db: db}
	if err := b.adopt(); err != nil {
		db.Close()
		return nil, err
	}
	return b, nil
}

// create writes a complete empty file beside path and links it into place. A
// crash before the link leaves no file at path, one after it a whole one. Of
// two processes that do this at once, the link of one wins and both go on to
// open the winner's file.
func create(path string) error {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	fresh := f.Name()
	defer os.Remove(fresh)
	if err := f.Close(); err != nil {
		return err
	}
	if err := format(fresh); err != nil {
		return err
	}
	switch err := os.Link(fresh, path); {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		return nil
	default: // a file system without hard links
		if err := os.Rename(fresh, path); err != nil {
			return err
		}
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there, and need not be
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// open turns what bbolt does with a damaged file, which includes panics and
// memory faults, into an error.
func open(path string, noSync bool) (db *bolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer damage(&err)
	options := &bolt.Options{
		Timeout:      lockWait,
		NoSync:       noSync,
		NoGrowSync:   noSync,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" {
		options.InitialMmapSize = mapSize
	}
	db, err = bolt.Open(path, 0o600, options)
	if errors.Is(err, syscall.ENOMEM) { // a limit on address space
		options.InitialMmapSize = 0
		db, err = bolt.Open(path, 0o600, options)
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrInvalidMapping):
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return db, err
}

// damage turns a panic into an error: bbolt panics, or reads where nothing is
// mapped, when it meets a damaged page.
func damage(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrCorrupt, r)
	}
}

// inspect looks at the head of an existing file before bbolt maps it. bbolt
// would write a fresh database over an empty file, and reading past the end
// of a truncated one kills the process.
func inspect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	need, ok := int64(0), false
	for _, at := range metaOffsets(f) {
		if size, valid := readMeta(f, at); valid {
			need, ok = max(need, size), true
		}
	}
	if !ok {
		return fmt.Errorf("%w: no valid header", ErrCorrupt)
	}
	if info.Size() < need {
		return fmt.Errorf("%w: truncated to %d of %d bytes", ErrCorrupt, info.Size(), need)
	}
	return nil
}

// Where the fields of bbolt's meta pages stand (its file format version 2,
// little-endian here, as on every machine Go and bbolt are used on together
// with this package; on others the magic number does not match).
const (
	metaSize      = 80
	metaMagic     = 0xED0CDAED
	metaMagicAt   = 16
	metaPageSize  = 24
	metaHighWater = 56
)

// metaOffsets returns where the two meta pages begin: the second one follows
// the first page, whose size the first meta tells if it is intact.
func metaOffsets(f *os.File) []int64 {
	second := int64(os.Getpagesize())
	var buf [metaSize]byte
	if _, err := f.ReadAt(buf[:], 0); err == nil && binary.LittleEndian.Uint32(buf[metaMagicAt:]) == metaMagic {
		second = int64(binary.LittleEndian.Uint32(buf[metaPageSize:]))
	}
	return []int64{0, second}
}

// readMeta returns how long the meta page at offset says the file must be.
func readMeta(f *os.File, offset int64) (size int64, ok bool) {
	var buf [metaSize]byte
	if _, err := f.ReadAt(buf[:], offset); err != nil {
		return 0, false
	}
	if binary.LittleEndian.Uint32(buf[metaMagicAt:]) != metaMagic {
		return 0, false
	}
	pageSize := int64(binary.LittleEndian.Uint32(buf[metaPageSize:]))
	pages := binary.LittleEndian.Uint64(buf[metaHighWater:])
	if pageSize <= 0 || pages > 1<<40 {
		return 0, false
	}
	return pageSize * int64(pages), true
}

// View implements Store.
func (b *Bolt) View(fn func(Reader) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer damage(&err)
	tx, err := b.db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return fn(reader{tx})
}

// Update implements Store.
func (b *Bolt) Update(fn func(Writer) error) (err error) {
	if b.broken != nil {
		return b.broken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// A transaction that met a damaged page may have freed the wrong ones:
	// what it did to bbolt's memory must not reach the file.
	defer func() {
		if errors.Is(err, ErrCorrupt) {
			b.broken = err
		}
	}()
	defer damage(&err)
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	id := tx.ID()
	defer tx.Rollback() // does nothing after a commit
	if err := fn(writer{reader{tx}}); err != nil {
		return err
	}
	// A crash before Commit has written its meta page leaves the state before
	// this transaction, one after it the state with all of it.
	if err := tx.Commit(); err != nil {
		return b.settle(id, err)
	}
	return nil
}

// settle decides what a failed commit left. If the meta page was not written,
// the transaction is gone and the next may try its luck (a full disk may have
// been cleared). If it was, but not known to be on disk, bbolt's notion of
// free pages no longer fits the file, and nothing more may be written.
func (b *Bolt) settle(id int, failure error) error {
	tx, err := b.db.Begin(false)
	if err != nil {
		b.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		return fmt.Errorf("%w: %w", ErrUncertain, failure)
	}
	defer tx.Rollback()
	if tx.ID() >= id {
		b.broken = fmt.Errorf("%w: %w", ErrBroken, failure)
		return fmt.Errorf("%w: %w", ErrUncertain, failure)
	}
	return failure
}

// Check implements Store.
func (b *Bolt) Check() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer damage(&err)
	// bbolt compares with the list of free pages, which belongs to the writer:
	// writes have to wait.
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// bbolt checks in a goroutine of its own, where a fault cannot be
	// caught. What it is going to read is read here first.
	if err := readAll(tx); err != nil {
		return err
	}
	var faults []error
	for fault := range tx.Check() {
		faults = append(faults, fmt.Errorf("%w: %w", ErrCorrupt, fault))
	}
	return errors.Join(faults...)
}

// readAll reads every page that can be reached, and every key.
func readAll(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		var last []byte
		return bucket.ForEach(func(key, _ []byte) error {
			if last != nil && bytes.Compare(last, key) >= 0 {
				return fmt.Errorf("%w: the keys of %q are not in order", ErrCorrupt, name)
			}
			last = key
			return nil
		})
	})
}

// Close implements Store.
func (b *Bolt) Close() error {
	return b.db.Close()
}

type reader struct{ tx *bolt.Tx }

func (r reader) Get(space string, key []byte) []byte {
	bucket := r.tx.Bucket([]byte(space))
	if bucket == nil {
		return nil
	}
	return bucket.Get(key)
}

func (r reader) Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool) {
	bucket := r.tx.Bucket([]byte(space))
	if bucket == nil {
		return
	}
	c := bucket.Cursor()
	if reverse {
		backwards(c, lo, hi, fn)
		return
	}
	for k, v := c.Seek(lo); k != nil && (hi == nil || bytes.Compare(k, hi) < 0); k, v = c.Next() {
		if !fn(k, v) {
			return
		}
	}
}

func backwards(c *bolt.Cursor, lo, hi []byte, fn func(key, value []byte) bool) {
	var k, v []byte
	if hi != nil {
		k, v = c.Seek(hi) // the first key that is too high, or none
	}
	if k == nil {
		k, v = c.Last()
	}
	for k != nil && hi != nil && bytes.Compare(k, hi) >= 0 {
		k, v = c.Prev()
	}
	for ; k != nil && bytes.Compare(k, lo) >= 0; k, v = c.Prev() {
		if !fn(k, v) {
			return
		}
	}
}

type writer struct{ reader }

func (w writer) Put(space string, key, value []byte) error {
	bucket, err := w.tx.CreateBucketIfNotExists([]byte(space))
	if err != nil {
		return err
	}
	if value == nil {
		value = []byte{} // or it would read as no value until the commit
	}
	return bucket.Put(key, value)
}

func (w writer) Delete(space string, key []byte) error {
	bucket := w.tx.Bucket([]byte(space))
	if bucket == nil {
		return nil
	}
	return bucket.Delete(key)
}

func (w writer) Drop(space string) error {
	err := w.tx.DeleteBucket([]byte(space))
	if errors.Is(err, bolterrors.ErrBucketNotFound) {
		return nil
	}
	return err
}
