// Package disktier keeps bodies of a store on the network in a local folder, so that a node
// reads each from the network once.
//
// Bodies are immutable and their keys are never used again, so a copy is never outdated, and a
// copy that is lost or damaged costs a read of the store. So nothing is synced:
//
//	Open ──► the file of the key, whose sum is right ──► the body
//	  └────► the store ──► the whole body was read ──► .tmp-<random> ──► rename ──► the file
//
// A body of more than 256 KiB is written to the temporary file while it is read. Parts of a body are read
// from its file, which is verified as a whole before, once in the life of the process.
//
// The size is bounded: files that were not used for longest are removed, by their modification
// times, which survive a restart and are renewed at most every ten minutes. A folder that cannot
// be written to is left as it is for a while, with a warning, and the store serves.
package disktier

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	lockFile   = "lock"
	tempPrefix = ".tmp-"

	// block is what a file takes at least, in bytes.
	block = 4 << 10
	// maxFiles bounds the files, and the memory of a look for the oldest: about 100 MB.
	maxFiles = 1 << 20
	// maxShare is the largest part of the tier that one body may take, as a divisor.
	maxShare = 8
	// firstBuffer bounds the memory that is allocated for a body before any of it was read, in
	// bytes: the store may state a wrong length.
	firstBuffer = 64 << 10
	// writers is how many bodies are written at once. maxQueue and maxQueueBytes bound those that
	// wait for that. Others are not kept: they are offered again when they are read next.
	writers       = 4
	maxQueue      = 1024
	maxQueueBytes = 16 << 20
	// usedEvery is the resolution of the time of use.
	usedEvery = 10 * time.Minute
	// pause is how long nothing is written after a failure.
	pause = time.Minute
)

// Observer is notified of what a tier does. Its methods must be safe for concurrent use.
type Observer interface {
	DiskCacheRead(hit bool)
	DiskCacheEvicted(files int)
	DiskCacheSize(bytes int64)
}

// A Tier is a [store.BodyStore] with copies of its bodies in a folder. It is safe for concurrent
// use.
type Tier struct {
	store.BodyStore // that has all bodies

	dir    string // as given, for messages
	folder localfile.FS
	lock   localfile.File // nil before it is opened
	limit  atomic.Int64
	log    *slog.Logger
	seen   Observer

	bytes, files atomic.Int64
	// verified has the files that were verified by this process, by their names.
	verified      sync.Map
	verifiedFiles atomic.Int64 // in verified, about
	working       sync.WaitGroup
	evicting      sync.Mutex
	// counting is held while files come and go, and while all are counted.
	counting sync.Mutex

	mu      sync.Mutex
	closed  bool      // guarded by mu
	until   time.Time // guarded by mu: nothing is written before
	queue   []waiting // guarded by mu
	queued  int       // guarded by mu: bytes of the bodies in queue
	writing int       // guarded by mu: how many goroutines write
}

var (
	_ store.BodyStore    = (*Tier)(nil)
	_ store.CachedReader = (*Tier)(nil)
	_ store.LocalKeeper  = (*Tier)(nil)
	_ store.BatchDeleter = (*Tier)(nil)
	_ store.RangeReader  = (*Tier)(nil)
)

// ErrLocked: another process uses the folder.
var ErrLocked = errors.New("the folder is used by another process")

// Open opens a folder, which is created if it does not exist, as a tier of at most limit bytes in
// front of bodies. ErrLocked: another process uses it. The caller must close the tier.
func Open(dir string, limit int64, bodies store.BodyStore, seen Observer, log *slog.Logger) (*Tier, error) {
	folder, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot keep bodies in %s: %w", dir, err)
	}
	return openIn(folder, dir, limit, bodies, seen, log)
}

// SetLimit changes the size of the tier, in bytes. What no longer fits is removed in the background.
func (t *Tier) SetLimit(bytes int64) {
	t.limit.Store(bytes)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.working.Go(t.evict)
	}
}

func openFolder(dir string) (*localfile.Folder, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return localfile.Open(root)
}

// openIn opens a tier in a folder, which belongs to it from now on, also if it fails.
func openIn(folder localfile.FS, dir string, limit int64, bodies store.BodyStore, seen Observer, log *slog.Logger) (*Tier, error) {
	t := &Tier{BodyStore: bodies, dir: dir, folder: folder, log: log, seen: seen}
	t.limit.Store(limit)
	if err := t.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot keep bodies in %s: %w", dir, err), t.Close())
	}
	return t, nil
}

func (t *Tier) open() (err error) {
	if t.lock, err = t.folder.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, fileMode); err != nil {
		return err
	}
	err = t.folder.Lock(t.lock, false, false)
	if errors.Is(err, localfile.ErrLocked) {
		return ErrLocked
	}
	if err == nil {
		_, err = t.scan(0)
	}
	if err == nil {
		t.evict()
	}
	return err
}

// Close waits for the bodies that are being written.
func (t *Tier) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.working.Wait()
	var err error
	if t.lock != nil {
		err = t.lock.Close() // releases the lock
	}
	return errors.Join(err, t.folder.Close())
}

func (t *Tier) count(files, bytes int64) {
	t.files.Add(files)
	t.seen.DiskCacheSize(t.bytes.Add(bytes))
}

// keeps reports whether the body of a key may be kept: other services may write new content
// under keys of their own.
func keeps(key string) bool {
	folder, _, found := strings.Cut(strings.TrimPrefix(key, store.BodyRoot), "/")
	_, err := hex.DecodeString(folder)
	return found && strings.HasPrefix(key, store.BodyRoot) && err == nil && len(folder) == 2*sha256.Size
}

// fileName returns the file of a key: two levels, so that folders stay small.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:20])
	return name[:2] + "/" + name[2:]
}

// A file is a header and the body:
//
//	magic | CRC-32C of the key and the body, big endian | body
const magic = "isr body 1\n"

const headLen = len(magic) + 4

func head(key string, body []byte) []byte {
	sum := newSum(key)
	_, _ = sum.Write(body) // it never fails
	return headOf(sum.Sum32())
}

func headOf(sum uint32) []byte { return binary.BigEndian.AppendUint32([]byte(magic), sum) }

// ReadLocal implements [store.LocalReader].
func (t *Tier) ReadLocal(_ context.Context, key string, limit int64) ([]byte, error) {
	body, err := t.read(key, func(name string) ([]byte, time.Time, error) {
		return t.folder.Read(name, limit+int64(headLen))
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not in %s: %w", store.ErrNotFound, key, t.dir, err)
	}
	t.seen.DiskCacheRead(true)
	return body, nil
}

// ReadCached implements [store.CachedReader].
func (t *Tier) ReadCached(_ context.Context, key string, buffer []byte) ([]byte, error) {
	body, err := t.read(key, func(name string) ([]byte, time.Time, error) {
		all, used, err := t.folder.ReadCached(name, buffer)
		if err == nil && isUseDue(used) {
			err = localfile.ErrWait // the disk is written to
		}
		return all, used, err
	})
	if err == nil {
		t.seen.DiskCacheRead(true)
	}
	return body, err
}

var errDamaged = errors.New("the file is damaged")

// read returns the body of a key, whose file a function reads.
func (t *Tier) read(key string, file func(name string) (content []byte, used time.Time, err error)) ([]byte, error) {
	if !keeps(key) {
		return nil, fs.ErrNotExist
	}
	name := fileName(key)
	all, used, err := file(name)
	if err != nil {
		return nil, err
	}
	if len(all) < headLen || string(all[:headLen]) != string(head(key, all[headLen:])) {
		t.remove(name, int64(len(all)))
		return nil, errDamaged
	}
	if isUseDue(used) {
		_ = t.folder.Chtimes(name, time.Now()) // it is evicted earlier then
	}
	return slices.Clip(all[headLen:]), nil
}

// isUseDue reports whether the use of a file, which was recorded at a time, is to be recorded again.
func isUseDue(used time.Time) bool { return time.Since(used) > usedEvery }

// Open implements [store.BodyStore].
func (t *Tier) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if keeps(key) {
		if body, err := t.ReadLocal(ctx, key, t.limit.Load()); err == nil {
			return io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		}
		t.seen.DiskCacheRead(false)
	}
	rd, length, err := t.BodyStore.Open(ctx, key)
	if err != nil || !keeps(key) {
		return rd, length, err
	}
	return t.fill(rd, key, length), length, nil
}

// A filling keeps what is read of a body, once that is all.
type filling struct {
	io.ReadCloser
	t      *Tier
	key    string
	length int64 // as the store states it
	body   []byte
	failed bool
}

func (f *filling) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if f.failed = f.failed || err != nil && err != io.EOF || int64(len(f.body)+n) > f.length; f.failed { //nolint:errorlint // io.Reader returns it as it is
		f.body = nil
	} else {
		f.body = append(f.body, p[:n]...)
	}
	return n, err
}

func (f *filling) Close() error {
	if !f.failed && int64(len(f.body)) == f.length {
		f.t.keep(f.key, f.body)
	}
	return f.ReadCloser.Close()
}

// Put implements [store.BodyStore].
func (t *Tier) Put(ctx context.Context, key string, body []byte) error {
	err := t.BodyStore.Put(ctx, key, body)
	if err == nil && keeps(key) && int64(len(body)) <= t.limit.Load()/maxShare {
		t.keep(key, body)
	}
	return err
}

// KeepLocal implements [store.LocalKeeper].
func (t *Tier) KeepLocal(key string, body []byte) {
	if !keeps(key) {
		return
	}
	t.seen.DiskCacheRead(false)
	if int64(len(body)) <= t.limit.Load()/maxShare {
		t.keep(key, body)
	}
}

// Delete implements [store.BodyStore].
func (t *Tier) Delete(ctx context.Context, key string) error {
	t.forget(key)
	return t.BodyStore.Delete(ctx, key)
}

// DeleteBatch implements [store.BatchDeleter].
func (t *Tier) DeleteBatch(ctx context.Context, keys []string) (deleted int, err error) {
	for _, key := range keys {
		t.forget(key)
	}
	return store.DeleteBodies(ctx, t.BodyStore, keys)
}

// forget removes the copy of a body.
func (t *Tier) forget(key string) {
	name := fileName(key)
	if info, err := t.folder.Lstat(name); err == nil {
		t.remove(name, info.Size())
	}
}

// waiting is a body that waits to be written.
type waiting struct {
	key  string
	body []byte
}

// keep writes a body in the background, unless too many wait for that. The body must not change.
func (t *Tier) keep(key string, body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	full := len(t.queue) == maxQueue || len(t.queue) > 0 && t.queued+len(body) > maxQueueBytes
	if t.closed || full || time.Now().Before(t.until) {
		return
	}
	t.queue, t.queued = append(t.queue, waiting{key, body}), t.queued+len(body)
	if t.writing < writers {
		t.writing++
		t.working.Go(t.writeAll)
	}
}

// writeAll writes the bodies that wait.
func (t *Tier) writeAll() {
	for {
		w, ok := t.next()
		if !ok {
			return
		}
		if err := t.write(fileName(w.key), head(w.key, w.body), w.body); err != nil {
			t.failed(err)
			continue
		}
		t.evict()
	}
}

// next returns the next body to write; ok is false if there is none, and the writer must end. Nothing
// is written after a failure.
func (t *Tier) next() (w waiting, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 || time.Now().Before(t.until) {
		t.queue, t.queued = nil, 0
		t.writing--
		return waiting{}, false
	}
	w, t.queue = t.queue[0], t.queue[1:]
	t.queued -= len(w.body)
	return w, true
}

// failed pauses writing.
func (t *Tier) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.until) {
		t.until = now.Add(pause)
		t.log.Warn("bodies are not kept on the local disk for a while, and are read from the bucket", "folder", t.dir, "for", pause, "error", err)
	}
}

// write writes a file. A crash leaves a temporary file, which the next Open removes; a power
// failure may leave one whose sum is wrong.
func (t *Tier) write(name string, parts ...[]byte) error {
	if _, err := t.folder.Lstat(name); err == nil {
		return nil // another request has written it
	}
	f, temp, err := t.createTemp(name)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, part := range parts {
		if err == nil {
			_, err = f.Write(part)
		}
		size += int64(len(part))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.place(temp, name, size)
	}
	if err != nil {
		_ = t.folder.Remove(temp)
	}
	return err
}

// createTemp creates a temporary file beside the file of a name.
func (t *Tier) createTemp(name string) (f localfile.File, temp string, err error) {
	if err := t.folder.Mkdir(path.Dir(name), folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, "", err
	}
	temp = path.Dir(name) + "/" + tempPrefix + rand.Text()
	f, err = t.folder.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	return f, temp, err
}

// place gives a temporary file its name, unless another request has written it before.
func (t *Tier) place(temp, name string, size int64) error {
	t.counting.Lock()
	defer t.counting.Unlock()
	if _, err := t.folder.Lstat(name); err == nil {
		return t.folder.Remove(temp)
	}
	if err := t.folder.Rename(temp, name); err != nil {
		return err
	}
	t.count(1, footprint(size))
	return nil
}

func footprint(size int64) int64 { return (size + block - 1) / block * block }

func (t *Tier) remove(name string, size int64) {
	t.counting.Lock()
	defer t.counting.Unlock()
	if t.folder.Remove(name) == nil {
		t.verified.Delete(name)
		t.count(-1, -footprint(size))
	}
}

// evict removes the files that were not used for longest, down to nine tenths of the limit, if it
// is exceeded. A write that finds another one evicting leaves its file to that.
func (t *Tier) evict() {
	for again := true; again && (t.bytes.Load() > t.limit.Load() || t.files.Load() > maxFiles) && t.evicting.TryLock(); {
		again = t.evictOnce()
		t.evicting.Unlock()
	}
}

// evictOnce reports whether it has removed files. Callers must hold evicting.
func (t *Tier) evictOnce() bool {
	found, err := t.scan(time.Hour)
	if err != nil {
		t.failed(err)
		return false
	}
	slices.SortFunc(found, func(a, b file) int { return cmp.Compare(a.used, b.used) })
	removed := 0
	for _, f := range found {
		if t.bytes.Load() <= t.limit.Load()/10*9 && t.files.Load() <= maxFiles/10*9 {
			break
		}
		t.remove(f.name, f.size)
		removed++
	}
	t.seen.DiskCacheEvicted(removed)
	return removed > 0
}

// A file is one of the tier.
type file struct {
	name string
	size int64 // footprint
	used int64 // Unix nanoseconds
}

// scan returns the files, and counts all again. It removes temporary ones that are older than
// leftover, left by crashed processes.
func (t *Tier) scan(leftover time.Duration) (found []file, err error) {
	t.counting.Lock()
	defer t.counting.Unlock()
	total := int64(0)
	folders, err := t.folder.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		entries, err := t.folder.ReadDir(folder.Name())
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := folder.Name() + "/" + e.Name()
			info, err := e.Info()
			switch {
			case err != nil || !info.Mode().IsRegular(): // removed since the listing, or not ours
			case !strings.HasPrefix(e.Name(), tempPrefix):
				found = append(found, file{name, footprint(info.Size()), info.ModTime().UnixNano()})
				total += footprint(info.Size())
			case time.Since(info.ModTime()) >= leftover:
				_ = t.folder.Remove(name) // the next scan tries again
			}
		}
	}
	t.files.Store(int64(len(found)))
	t.bytes.Store(total)
	t.seen.DiskCacheSize(total)
	return found, nil
}
