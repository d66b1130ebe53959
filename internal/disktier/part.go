package disktier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// maxVerified bounds the files of which a tier remembers that it has verified them.
const maxVerified = 1 << 16

// OpenRange implements [store.RangeReader]. A file is verified as a whole when the first part of it is
// read, once in the life of the tier: files are not synced, and one that was written before a power
// failure may have the right length and other content. A body of which the whole is asked for is
// kept, as by Open.
func (t *Tier) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	if !keeps(key) {
		return store.OpenRange(ctx, t.BodyStore, key, offset, length)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("reading a part of %s: %w", key, err)
	}
	if f, size, err := t.openPart(key); err == nil {
		if err := store.ValidRange(offset, length, size); err != nil {
			return nil, 0, errors.Join(fmt.Errorf("reading a part of %s: %w", key, err), f.Close())
		}
		t.seen.DiskCacheRead(true)
		return store.NewRange(io.NewSectionReader(f, int64(headLen)+offset, length), length, f), size, nil
	}
	t.seen.DiskCacheRead(false)
	rd, size, err := store.OpenRange(ctx, t.BodyStore, key, offset, length)
	if err != nil || offset > 0 || length != size {
		return rd, size, err
	}
	return t.fill(rd, key, size), size, nil
}

// openPart opens the file of a key, and returns the length of its body.
func (t *Tier) openPart(key string) (localfile.File, int64, error) {
	name := fileName(key)
	f, err := t.folder.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	size := int64(0)
	if err == nil {
		size = info.Size() - int64(headLen)
		err = t.verify(f, name, key, size)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if isUseDue(info.ModTime()) {
		_ = t.folder.Chtimes(name, time.Now()) // it is evicted earlier then
	}
	return f, size, nil
}

// verify verifies a file, unless it has before. A damaged one is removed.
func (t *Tier) verify(f localfile.File, name, key string, size int64) error {
	if _, done := t.verified.Load(name); done {
		return nil
	}
	var stored [headLen]byte
	_, err := io.ReadFull(f, stored[:])
	sum := newSum(key)
	if err == nil {
		_, err = io.CopyN(sum, f, size)
	}
	if err == nil && !bytes.Equal(stored[:], headOf(sum.Sum32())) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || size < 0 {
		t.remove(name, size+int64(headLen))
		return errDamaged
	}
	if err == nil {
		t.noteVerified(name)
	}
	return err
}

// noteVerified remembers that a file is what it should be.
func (t *Tier) noteVerified(name string) {
	if t.verifiedFiles.Add(1) > maxVerified {
		t.verified.Clear()
		t.verifiedFiles.Store(1)
	}
	t.verified.Store(name, struct{}{})
}

// fill returns a reader that keeps what is read of a body, once that is all. A body that fits into the
// queue of those being written is kept in memory until it is written; a longer one is written as it is read.
func (t *Tier) fill(rd io.ReadCloser, key string, length int64) io.ReadCloser {
	if length < 0 || length > t.limit.Load()/maxShare || store.PresentationOf(rd) != (store.Presentation{}) {
		return rd // a file has no presentation
	}
	if length > maxFilled {
		return t.spill(rd, key, length)
	}
	return &filling{ReadCloser: rd, t: t, key: key, length: length, body: make([]byte, 0, min(length, firstBuffer))}
}

// maxFilled is the longest body that is kept in memory while it is read, in bytes.
const maxFilled = 256 << 10

// spill returns a reader that writes what is read of a body into a temporary file. If that fails, the
// body is read all the same. Close of the tier does not wait for the reader, which may be slow.
func (t *Tier) spill(rd io.ReadCloser, key string, length int64) io.ReadCloser {
	t.mu.Lock()
	paused := t.closed || time.Now().Before(t.until)
	t.mu.Unlock()
	if paused {
		return rd
	}
	f, temp, err := t.createTemp(fileName(key))
	if err == nil {
		_, err = f.Write(make([]byte, headLen)) // replaced at the end
	}
	s := &spilling{ReadCloser: rd, t: t, name: fileName(key), temp: temp, file: f, length: length, sum: newSum(key)}
	if err != nil {
		s.giveUp(err)
	}
	return s
}

// A spilling writes what is read of a body into a temporary file, which gets its name once it is
// complete.
type spilling struct {
	io.ReadCloser
	t          *Tier
	name, temp string
	file       localfile.File // nil: given up
	length     int64          // as the store states it
	written    int64
	sum        *keyedSum
}

func (s *spilling) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.file == nil {
		return n, err
	}
	if _, failed := s.file.Write(p[:n]); failed != nil {
		s.giveUp(failed)
		return n, err
	}
	_, _ = s.sum.Write(p[:n]) // it never fails
	s.written += int64(n)
	if err != nil && err != io.EOF || s.written > s.length { //nolint:errorlint // io.Reader returns it as it is
		s.giveUp(nil)
	}
	return n, err
}

// giveUp removes the temporary file. The error is the disk's, nil if there is none. After Close
// of the tier nothing can be removed: the next Open does that.
func (s *spilling) giveUp(err error) {
	if err != nil && !errors.Is(err, os.ErrClosed) {
		s.t.failed(err)
	}
	if s.file != nil {
		_ = s.file.Close() // it is removed
		s.file = nil
	}
	if s.temp != "" {
		_ = s.t.folder.Remove(s.temp)
	}
}

func (s *spilling) Close() error {
	switch {
	case s.file == nil:
	case s.written == s.length:
		s.place()
	default:
		s.giveUp(nil)
	}
	return s.ReadCloser.Close()
}

// place completes the file and gives it its name.
func (s *spilling) place() {
	_, err := s.file.WriteAt(headOf(s.sum.Sum32()), 0)
	err = errors.Join(err, s.file.Close())
	s.file = nil
	if err == nil {
		err = s.t.place(s.temp, s.name, s.length+int64(headLen))
	}
	if err != nil {
		s.giveUp(err)
		return
	}
	s.t.noteVerified(s.name)
	s.t.evict()
}

// A keyedSum is the CRC-32C of a key and of what is written.
type keyedSum struct{ sum uint32 }

func newSum(key string) *keyedSum {
	return &keyedSum{crc32.Checksum([]byte(key), castagnoli())}
}

func (s *keyedSum) Write(p []byte) (int, error) {
	s.sum = crc32.Update(s.sum, castagnoli(), p)
	return len(p), nil
}

// Sum32 returns the sum of what was written.
func (s *keyedSum) Sum32() uint32 { return s.sum }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
