package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A compaction copies all values to another file, which has no unused space, while reads and writes
// go on, and replaces the file by it:
//
//	snapshot ──► copy ──► what has changed since, from another snapshot ──► again ──► the rest, while writes wait ──► rename
//
// Each value is verified when it is copied, and the copy has checksums for all of them.
const (
	// copiedPerCommit bounds the bytes of a commit of the copy, and so memory.
	copiedPerCommit = 8 << 20
	// maxChanges bounds the keys that are noted as changed; more end the compaction.
	maxChanges = 1 << 20
	// fewChanges is up to how many keys are copied while writes wait, and maxRounds how often
	// changes are copied before.
	fewChanges = 1 << 12
	maxRounds  = 16

	compactSuffix = ".compact"
	fullPages     = 0.95 // of a page, since the keys are put in order
)

// Errors of Compact.
var (
	ErrCompacting  = errors.New("another compaction of the file is in progress")
	errManyChanges = errors.New("the file changes faster than it can be compacted; try again when less is written")
)

// changes are the keys that were written, or may have been, and the spaces that were dropped.
type changes struct {
	keys    map[string]map[string]struct{} // by space
	dropped map[string]bool
	n       int
}

func newChanges() *changes {
	return &changes{keys: make(map[string]map[string]struct{}), dropped: make(map[string]bool)}
}

// note notes that a key is written. Callers must hold writing.
func (b *Bolt) note(space string, key []byte) {
	c := b.changes
	if c == nil || c.n > maxChanges {
		return
	}
	if c.keys[space] == nil {
		c.keys[space] = make(map[string]struct{})
	}
	if _, known := c.keys[space][string(key)]; !known {
		c.keys[space][string(key)] = struct{}{}
		c.n++
	}
}

// noteDrop notes that a space is dropped. Callers must hold writing.
func (b *Bolt) noteDrop(space string) {
	if b.changes != nil {
		b.changes.dropped[space] = true
	}
}

// CompactOptions are the options of Compact.
type CompactOptions struct {
	// Discard is called for each damaged value, which the copy then lacks. Nil: it ends the compaction.
	Discard func(*Damage)
	// Progress is called with the bytes that were copied. Nil: it is not.
	Progress func(bytes int64)
}

// Compact replaces the file by a copy without unused space. It needs room for the copy beside the file. If it fails, or
// we crash, the file is as it was.
func (b *Bolt) Compact(ctx context.Context, o CompactOptions) (err error) {
	if !b.compacting.TryLock() {
		return ErrCompacting
	}
	defer b.compacting.Unlock()
	b.writing.Lock()
	b.changes = newChanges()
	b.writing.Unlock()
	defer func() {
		b.writing.Lock()
		b.changes = nil
		b.writing.Unlock()
	}()
	temp, err := os.CreateTemp(filepath.Dir(b.path), filepath.Base(b.path)+compactSuffix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // after a rename there is none
	info, err := os.Stat(b.path)
	if err == nil {
		err = temp.Chmod(info.Mode().Perm())
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	db, err := open(temp.Name(), true)
	if err != nil {
		return err
	}
	c := &compaction{b: b, ctx: ctx, options: o, to: db}
	err = c.run(temp.Name())
	if !c.replaced {
		err = errors.Join(err, db.Close())
	}
	return err
}

// A compaction is a Compact in progress.
type compaction struct {
	b       *Bolt
	ctx     context.Context
	options CompactOptions
	to      *bolt.DB
	into    *draftFile // the transaction in progress
	copied  int64

	replaced bool // the copy is the file
}

func (c *compaction) run(temp string) error {
	if err := c.snapshot(c.copyAll); err != nil {
		return err
	}
	for range maxRounds {
		few := false
		err := c.snapshot(func(r reader, since *changes) error {
			few = since.n <= fewChanges && len(since.dropped) == 0
			return c.copyChanges(r, since)
		})
		if err != nil {
			return err
		}
		if few {
			break
		}
	}
	if err := c.to.Sync(); err != nil {
		return err
	}
	return c.finish(temp)
}

// snapshot calls do with a snapshot, and with what has changed since the one before.
func (c *compaction) snapshot(do func(r reader, since *changes) error) (err error) {
	c.b.writing.Lock()
	f, done := c.b.use()
	defer done()
	since := c.b.changes
	tx, err := f.db.Begin(false)
	if err == nil {
		c.b.changes = newChanges()
	}
	c.b.writing.Unlock()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return c.copy(reader{tx: tx, b: c.b, file: f}, since, do)
}

// copy calls do, and commits what it has put.
func (c *compaction) copy(r reader, since *changes, do func(reader, *changes) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverDamage(&err)
	if since.n > maxChanges {
		return errManyChanges
	}
	return c.batch(func(to *draftFile) error {
		c.into = to
		return do(r, since)
	})
}

// finish copies the last changes and replaces the file, while writes wait.
func (c *compaction) finish(temp string) error {
	b := c.b
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.broken != nil {
		return b.broken
	}
	f, done := b.use()
	defer done()
	tx, err := f.db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := c.copy(reader{tx: tx, b: b, file: f}, b.changes, c.copyChanges); err != nil {
		return err
	}
	if err := c.to.Sync(); err != nil {
		return err
	}
	// If we crash before the rename, the old file is as it was; after it, the copy is complete and on disk.
	if err := os.Rename(temp, b.path); err != nil {
		return err
	}
	c.to.NoSync, c.to.NoGrowSync = b.noSync, b.noSync
	b.replace(&file{db: c.to, base: f.base + uint64(tx.ID())})
	c.replaced = true
	if err := syncFolder(filepath.Dir(b.path)); err != nil {
		// The name may still name the old file, which would lose writes from now on.
		b.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		return b.broken
	}
	return nil
}

// A draftFile is the transaction of the copy that is being filled.
type draftFile struct {
	db    *bolt.DB
	tx    *bolt.Tx
	bytes int
}

// batch calls do with a transaction of the copy, and commits it.
func (c *compaction) batch(do func(to *draftFile) error) error {
	to := &draftFile{db: c.to}
	defer func() {
		if to.tx != nil {
			_ = to.tx.Rollback() // a no-op after a commit
		}
	}()
	err := to.begin()
	if err == nil {
		err = do(to)
	}
	if err == nil {
		err = to.tx.Commit()
	}
	return err
}

func (d *draftFile) begin() (err error) {
	d.bytes = 0
	d.tx, err = d.db.Begin(true)
	return err
}

// put puts a stored value, and commits now and then.
func (c *compaction) put(space string, key, stored []byte) error {
	d := c.into
	if d.bytes >= copiedPerCommit {
		if err := errors.Join(context.Cause(c.ctx), d.tx.Commit()); err != nil {
			return err
		}
		if err := d.begin(); err != nil {
			return err
		}
	}
	bucket, err := d.tx.CreateBucketIfNotExists([]byte(space))
	if err != nil {
		return err
	}
	bucket.FillPercent = fullPages
	n := len(key) + len(stored)
	d.bytes += n
	c.copied += int64(n)
	if c.options.Progress != nil {
		c.options.Progress(c.copied)
	}
	return bucket.Put(key, stored)
}

// copyAll copies all values.
func (c *compaction) copyAll(r reader, _ *changes) error {
	return r.tx.ForEach(func(name []byte, _ *bolt.Bucket) error { return c.copySpace(r, string(name)) })
}

func (c *compaction) copySpace(r reader, space string) error {
	bucket := r.tx.Bucket([]byte(space))
	if bucket == nil {
		return nil
	}
	var last []byte
	return bucket.ForEach(func(key, stored []byte) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			if c.options.Discard == nil {
				return errOrder(space)
			}
			c.options.Discard(&Damage{Space: space, Key: bytes.Clone(key)})
			return nil
		}
		last = key
		return c.copyValue(r, space, key, stored)
	})
}

// copyValue copies one value; nil if there is none any more.
func (c *compaction) copyValue(r reader, space string, key, stored []byte) error {
	if space == formatSpace && string(key) == uncheckedKey {
		return nil
	}
	value, ok := unseal(space, key, stored, r.file.unchecked)
	switch {
	case stored != nil && !ok:
		damage := &Damage{Space: space, Key: bytes.Clone(key)}
		if c.options.Discard == nil {
			return damage
		}
		c.options.Discard(damage)
		fallthrough
	case stored == nil:
		if bucket := c.into.tx.Bucket([]byte(space)); bucket != nil {
			return bucket.Delete(key)
		}
		return nil
	case space != formatSpace && len(stored) != len(value)+checksumHeader:
		stored = seal(space, key, value)
	}
	return c.put(space, key, stored)
}

// copyChanges copies what has changed since the snapshot before.
func (c *compaction) copyChanges(r reader, since *changes) error {
	for space := range since.dropped {
		err := c.into.tx.DeleteBucket([]byte(space))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		if err := c.copySpace(r, space); err != nil {
			return err
		}
	}
	for space, keys := range since.keys {
		bucket := r.tx.Bucket([]byte(space))
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			var stored []byte
			if bucket != nil {
				stored = bucket.Get([]byte(key))
			}
			if err := c.copyValue(r, space, []byte(key), stored); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCompactions removes what a crash during a compaction has left. The file is locked, so none is in progress.
func (b *Bolt) removeCompactions() error {
	folder, prefix := filepath.Split(b.path)
	entries, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix+compactSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(folder, entry.Name())))
		}
	}
	return err
}
