package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long Open waits for the file lock: long enough for a process that
// is just exiting, short enough to appear immediate.
const lockWait = 100 * time.Millisecond

// mapSize is the address space reserved for the file at Open. While the file fits,
// growing it does not wait for readers.
const mapSize = 16 << 30

// Bolt is a Store on one bbolt file.
type Bolt struct {
	path   string
	noSync bool

	mu      sync.RWMutex
	current *file          // guarded by mu
	retired sync.WaitGroup // files that compactions have replaced, and that are still read

	compacting sync.Mutex // held by Compact, which Close waits for

	writing sync.Mutex // held by Update and Check, and by the steps of a compaction that writes must wait for
	broken  error      // guarded by writing
	changes *changes   // guarded by writing: since a step of the compaction in progress; nil if there is none

	inRanges atomic.Int64 // bytes that ranges have read since memory was given back
	resident atomic.Bool  // memory is given back after residentFor
}

var _ Store = (*Bolt)(nil)

// A file is the file that a Bolt uses until a compaction replaces it.
type file struct {
	db        *bolt.DB
	base      uint64         // is added to the ids of transactions, so that versions grow when the file is replaced
	unchecked bool           // it may have values of formats 1 and 2, without checksums
	readers   sync.WaitGroup // is added to only while the file is current
}

// use returns the current file. The caller must call done, until when the file is not closed.
func (b *Bolt) use() (f *file, done func()) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	f = b.current
	f.readers.Add(1)
	return f, f.readers.Done
}

// replace makes another file the current one, and closes the old one once it is not read any more.
func (b *Bolt) replace(next *file) {
	b.mu.Lock()
	old := b.current
	b.current = next
	b.mu.Unlock()
	b.retired.Go(func() {
		old.readers.Wait()
		_ = old.db.Close() // it was replaced
	})
}

// Open opens the file at path, creates it if it does not exist, and upgrades an older
// format to Format. The folder must exist. With noSync a crash of the machine may
// lose everything.
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
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // what a compaction replaces
	}
	b := &Bolt{path: path, noSync: noSync, current: &file{db: db}}
	if err := b.upgrade(); err != nil {
		db.Close()
		return nil, err
	}
	if err := b.removeCompactions(); err != nil {
		db.Close()
		return nil, err
	}
	return b, nil
}

// create writes a complete empty file next to path and links it into place. A crash
// before the link leaves no file at path, a crash after it a complete one. If two
// processes race, one link succeeds and both open that file.
func create(path string) error {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	temp := f.Name()
	defer os.Remove(temp)
	if err := f.Close(); err != nil {
		return err
	}
	if err := format(temp); err != nil {
		return err
	}
	switch err := os.Link(temp, path); {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		return nil
	default: // a file system without hard links
		if err := os.Rename(temp, path); err != nil {
			return err
		}
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync folders, and does not need to
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// open opens the database. It turns bbolt's reactions to a damaged file, including
// panics and memory faults, into errors. After an error the file is not locked.
func open(path string, noSync bool) (db *bolt.DB, err error) {
	var file *os.File // bbolt's
	defer func() {
		if err != nil && file != nil {
			// bbolt closes the file after an error, but not when it panics. Then the file
			// stays mapped, and a lock lasts as long as a mapping unless it is released.
			unlock(file)
			file.Close()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverDamage(&err)
	options := &bolt.Options{
		OpenFile: func(name string, flag int, mode os.FileMode) (opened *os.File, err error) {
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
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
	if errors.Is(err, syscall.ENOMEM) { // the address space is limited (ulimit -v)
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

// recoverDamage turns a panic into an error: on a damaged page bbolt panics or reads
// unmapped memory, and a Reader panics on damaged values.
func recoverDamage(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		if *err = r; !errors.Is(r, ErrCorrupt) {
			*err = fmt.Errorf("%w: %w", ErrCorrupt, r)
		}
	default:
		*err = fmt.Errorf("%w: %v", ErrCorrupt, r)
	}
}

// inspect validates the meta pages of an existing file before bbolt maps it. bbolt
// would initialize an empty file as a new database, and reading past the end of a
// truncated file kills the process.
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

// Offsets in bbolt's meta pages (its file format version 2). bbolt writes the
// machine's byte order and this package reads little-endian; on a big-endian machine
// the magic number does not match.
const (
	metaSize      = 80
	metaMagic     = 0xED0CDAED
	metaMagicAt   = 16
	metaPageSize  = 24
	metaHighWater = 56
)

// metaOffsets returns the offsets of the two meta pages. The second follows the first
// page, whose size is in the first meta if that is intact.
func metaOffsets(f *os.File) []int64 {
	second := int64(os.Getpagesize())
	var buf [metaSize]byte
	if _, err := f.ReadAt(buf[:], 0); err == nil && binary.LittleEndian.Uint32(buf[metaMagicAt:]) == metaMagic {
		second = int64(binary.LittleEndian.Uint32(buf[metaPageSize:]))
	}
	return []int64{0, second}
}

// readMeta returns the file size that the meta page at offset requires.
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
	defer recoverDamage(&err)
	f, done := b.use()
	defer done()
	tx, err := f.db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b.used()
	return fn(reader{tx: tx, b: b, file: f})
}

// Update implements Store.
func (b *Bolt) Update(fn func(Writer) error) (err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.broken != nil {
		return b.broken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// A transaction that read a damaged page may have freed the wrong pages. Its
	// in-memory freelist must not reach the file. A damaged value does not affect it.
	defer func() {
		if errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrDamaged) {
			b.broken = err
		}
	}()
	defer recoverDamage(&err)
	f, done := b.use()
	defer done()
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	id := tx.ID()
	defer tx.Rollback() // a no-op after a commit
	b.used()
	if err := fn(writer{reader{tx: tx, b: b, file: f}}); err != nil {
		return err
	}
	// A crash before Commit has written the meta page leaves none of this
	// transaction, a crash after it all of it.
	if err := tx.Commit(); err != nil {
		return b.settle(f, id, err)
	}
	return nil
}

// settle determines the outcome of a failed commit. If the meta page was not written,
// the transaction is rolled back and later ones may succeed (the disk may have been
// full). If it was written but may not be on disk, bbolt's freelist may no longer match
// the file, and further writes are rejected.
func (b *Bolt) settle(f *file, id int, failure error) error {
	tx, err := f.db.Begin(false)
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

// Snapshot calls fn with the size of the file, in bytes, and with a function that writes a copy of the
// file to w: all commits so far, and none later.
func (b *Bolt) Snapshot(fn func(size int64, write func(w io.Writer) error) error) error {
	return b.View(func(r Reader) error {
		tx := r.(reader).tx
		return fn(tx.Size(), func(w io.Writer) error {
			_, err := tx.WriteTo(w)
			return err
		})
	})
}

// Check implements Store.
func (b *Bolt) Check() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverDamage(&err)
	// bbolt's check uses the freelist, which belongs to the writer. A write
	// transaction keeps writers out.
	b.writing.Lock()
	defer b.writing.Unlock()
	f, done := b.use()
	defer done()
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// bbolt checks in its own goroutine, where a memory fault cannot be recovered.
	// Read everything here first.
	if err := checkPages(tx); err != nil {
		return err
	}
	if err := readAll(tx); err != nil {
		return err
	}
	var faults []error
	for fault := range tx.Check(bolt.WithKVStringer(unreadKeys{})) {
		faults = append(faults, fmt.Errorf("%w: %w", ErrCorrupt, fault))
	}
	return errors.Join(faults...)
}

// unreadKeys describes keys in the faults of bbolt's check without reading them: a damaged length may
// reach beyond the file, and a fault in bbolt's goroutine would end the process.
type unreadKeys struct{}

func (unreadKeys) KeyToString(key []byte) string     { return fmt.Sprintf("(%d bytes)", len(key)) }
func (unreadKeys) ValueToString(value []byte) string { return fmt.Sprintf("(%d bytes)", len(value)) }

// readAll reads every reachable page and checks the order of keys.
func readAll(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		var last []byte
		return bucket.ForEach(func(key, _ []byte) error {
			if last != nil && bytes.Compare(last, key) >= 0 {
				return errOrder(string(name))
			}
			last = key
			return nil
		})
	})
}

func errOrder(space string) error {
	return fmt.Errorf("%w: the keys of %q are not in order", ErrCorrupt, space)
}

// Close implements Store. It waits for a compaction, whose context should be done.
func (b *Bolt) Close() error {
	b.compacting.Lock()
	defer b.compacting.Unlock()
	b.mu.RLock()
	current := b.current
	b.mu.RUnlock()
	err := current.db.Close()
	b.retired.Wait()
	return err
}

type reader struct {
	tx   *bolt.Tx
	b    *Bolt
	file *file
	skip func(*Damage) // nil: damage ends the transaction
}

func (r reader) Version() uint64 { return r.file.base + uint64(r.tx.ID()) }

// SkipDamaged implements Reader.
func (r reader) SkipDamaged(report func(*Damage)) Reader {
	r.skip = report
	return r
}

// damaged ends the transaction, or reports the key to be skipped.
func (r reader) damaged(space string, key []byte) {
	d := &Damage{Space: space, Key: bytes.Clone(key)}
	if r.skip == nil {
		panic(d)
	}
	r.skip(d)
}

// value verifies a stored value and returns it, or ends as damaged does.
func (r reader) value(space string, key, stored []byte) (value []byte, ok bool) {
	value, ok = unseal(space, key, stored, r.file.unchecked)
	if !ok {
		r.damaged(space, key)
	}
	return value, ok
}

// neighbour verifies the first key outside of a range, which must be beyond bound; nil means that
// there is none. If it is damaged, what is in the range is unknown.
func (r reader) neighbour(space string, key, stored, bound []byte, order int) {
	switch {
	case key == nil:
	case !keyIntact(space, key, stored, r.file.unchecked):
		panic(&Damage{Space: space, Key: bytes.Clone(key)})
	case bytes.Compare(key, bound) != order:
		panic(errOrder(space))
	}
}

func (r reader) Get(space string, key []byte) []byte {
	bucket := r.tx.Bucket([]byte(space))
	if bucket == nil {
		return nil
	}
	c := bucket.Cursor()
	found, stored := c.Seek(key)
	if found != nil && bytes.Equal(found, key) {
		value, _ := r.value(space, key, stored)
		return value
	}
	r.neighbour(space, found, stored, key, 1)
	before, stored := c.Prev()
	r.neighbour(space, before, stored, key, -1)
	r.checkPath(space, bucket, key, false)
	return nil
}

func (r reader) Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool) {
	bucket := r.tx.Bucket([]byte(space))
	if bucket == nil {
		return
	}
	c := bucket.Cursor()
	if reverse {
		r.checkPath(space, bucket, hi, hi == nil)
		r.rangeReverse(space, c, lo, hi, fn)
		return
	}
	read := int64(0)
	defer func() { r.b.scanned(r.tx, read) }()
	r.checkPath(space, bucket, lo, false)
	if len(lo) > 0 {
		c.Seek(lo)
		before, stored := c.Prev()
		r.neighbour(space, before, stored, lo, -1)
	}
	var last []byte
	k, v := c.Seek(lo)
	for ; k != nil && (hi == nil || bytes.Compare(k, hi) < 0); k, v = c.Next() {
		if read += int64(len(k) + len(v)); read >= residentScan {
			r.b.scanned(r.tx, read)
			read = 0
		}
		if last != nil && bytes.Compare(last, k) >= 0 {
			panic(errOrder(space))
		}
		last = k
		if value, ok := r.value(space, k, v); ok && !fn(k, value) {
			return
		}
	}
	if k != nil && last != nil && bytes.Compare(last, k) >= 0 {
		panic(errOrder(space))
	}
	if k != nil && !bytes.Equal(k, hi) {
		r.neighbour(space, k, v, hi, 1)
	}
	r.checkPath(space, bucket, hi, hi == nil)
}

func (r reader) rangeReverse(space string, c *bolt.Cursor, lo, hi []byte, fn func(key, value []byte) bool) {
	var k, v []byte
	if hi != nil {
		k, v = c.Seek(hi) // the first key at or above hi, or nil
		if k != nil && !bytes.Equal(k, hi) {
			r.neighbour(space, k, v, hi, 1)
		}
	}
	if k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	last := hi
	for ; k != nil && bytes.Compare(k, lo) >= 0; k, v = c.Prev() {
		if last != nil && bytes.Compare(last, k) <= 0 {
			panic(errOrder(space))
		}
		last = k
		if value, ok := r.value(space, k, v); ok && !fn(k, value) {
			return
		}
	}
	r.neighbour(space, k, v, lo, -1)
	r.checkPath(space, c.Bucket(), lo, false)
}

type writer struct{ reader }

func (w writer) Put(space string, key, value []byte) error {
	bucket, err := w.tx.CreateBucketIfNotExists([]byte(space))
	if err != nil {
		return err
	}
	if space != formatSpace {
		value = seal(space, key, value)
	}
	w.b.note(space, key)
	return bucket.Put(key, value)
}

func (w writer) Delete(space string, key []byte) error {
	bucket := w.tx.Bucket([]byte(space))
	if bucket == nil {
		return nil
	}
	w.b.note(space, key)
	return bucket.Delete(key)
}

func (w writer) Drop(space string) error {
	w.b.noteDrop(space)
	err := w.tx.DeleteBucket([]byte(space))
	if errors.Is(err, bolterrors.ErrBucketNotFound) {
		return nil
	}
	return err
}
