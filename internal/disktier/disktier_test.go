package disktier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/internal/disktier"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

// A bucket is a store on the network, which counts the bodies that are opened.
type bucket struct {
	store.BodyStore
	opened atomic.Int64
}

func (b *bucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	b.opened.Add(1)
	return b.BodyStore.Open(ctx, key)
}

type seen struct{ hits, misses, evicted, bytes atomic.Int64 }

func (s *seen) DiskCacheRead(hit bool) {
	if hit {
		s.hits.Add(1)
	} else {
		s.misses.Add(1)
	}
}
func (s *seen) DiskCacheEvicted(files int) { s.evicted.Add(int64(files)) }
func (s *seen) DiskCacheSize(bytes int64)  { s.bytes.Store(bytes) }
func quiet() *slog.Logger                  { return slog.New(slog.DiscardHandler) }
func key(i int) string                     { return fmt.Sprintf("bodies/%064x/generation-%d", i, i) }
func body(i, n int) []byte                 { return bytes.Repeat([]byte{byte('a' + i%26)}, n) }
func newBucket(t *testing.T) *bucket {
	t.Helper()
	bodies, err := dirbody.Open(t.TempDir(), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bodies.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bucket{BodyStore: bodies}
}

func open(t *testing.T, dir string, limit int64, b *bucket, s *seen) *disktier.Tier {
	t.Helper()
	tier, err := disktier.Open(dir, limit, b, s, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

func read(t *testing.T, s store.BodyStore, key string) []byte {
	t.Helper()
	rd, length, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, length)
	_, err = io.ReadFull(rd, got)
	if err := errors.Join(err, rd.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

func files(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestBodyStore(t *testing.T) {
	t.Parallel()
	isrtest.BodyStore(t, func(t *testing.T) store.BodyStore {
		tier := open(t, t.TempDir(), 1<<30, newBucket(t), new(seen))
		t.Cleanup(func() {
			if err := tier.Close(); err != nil {
				t.Error(err)
			}
		})
		return tier
	})
}

// A body is read from the bucket once, by this process and the next.
func TestReadsOnce(t *testing.T) {
	t.Parallel()
	dir, b, s := filepath.Join(t.TempDir(), "a", "b"), newBucket(t), new(seen)
	for i := range 3 {
		if err := b.Put(t.Context(), key(i), body(i, 10_000*i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		tier := open(t, dir, 1<<20, b, s)
		for i := range 3 {
			if got := read(t, tier, key(i)); !bytes.Equal(got, body(i, 10_000*i)) {
				t.Errorf("body %d: %d bytes", i, len(got))
			}
		}
		if err := tier.Close(); err != nil { // it waits for writes
			t.Fatal(err)
		}
	}
	if b.opened.Load() != 3 || s.hits.Load() != 6 || s.misses.Load() != 3 || s.bytes.Load() < 30_000 {
		t.Errorf("%d bodies were opened; %d hits, %d misses, %d bytes", b.opened.Load(), s.hits.Load(), s.misses.Load(), s.bytes.Load())
	}
	for _, name := range append(files(t, dir), dir) {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s, %v", name, info.Mode(), err)
		}
	}
}

// What other services may write again under the same key is not kept.
// A body that came from elsewhere is kept, and is not read from the bucket.
func TestKeepLocal(t *testing.T) {
	t.Parallel()
	b, s, dir := newBucket(t), new(seen), t.TempDir()
	tier := open(t, dir, 1<<20, b, s)
	if _, err := tier.ReadLocal(t.Context(), key(1), 100); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	tier.KeepLocal(key(1), body(1, 100))
	tier.KeepLocal("theirs", body(2, 100))      // of another service, which may write it again
	tier.KeepLocal(key(2), make([]byte, 1<<20)) // as large as the tier
	if err := tier.Close(); err != nil {
		t.Fatal(err)
	}
	tier = open(t, dir, 1<<20, b, s)
	defer func() {
		if err := tier.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := tier.ReadLocal(t.Context(), key(1), 100)
	if err != nil || !bytes.Equal(got, body(1, 100)) {
		t.Errorf("%q: %v", got, err)
	}
	for _, k := range []string{"theirs", key(2)} {
		if _, err := tier.ReadLocal(t.Context(), k, 1<<21); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", k, err)
		}
	}
	if b.opened.Load() != 0 || s.misses.Load() != 2 {
		t.Errorf("%d bodies were opened, %d misses", b.opened.Load(), s.misses.Load())
	}
}

func TestForeignKeys(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	tier := open(t, dir, 1<<20, b, new(seen))
	for _, key := range []string{"pages/1", "bodies/1", "bodies/" + strings.Repeat("x", 64) + "/1"} {
		if err := tier.Put(t.Context(), key, []byte("old")); err != nil {
			t.Fatal(err)
		}
		read(t, tier, key)
	}
	if err := tier.Close(); err != nil {
		t.Fatal(err)
	}
	if found := files(t, dir); len(found) > 0 {
		t.Errorf("kept: %q", found)
	}
}

// A presenting store has a presentation for each body.
type presenting struct{ *bucket }

type presented struct{ io.ReadCloser }

func (presented) Presentation() store.Presentation { return store.Presentation{Status: "404"} }

func (p presenting) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	rd, length, err := p.bucket.Open(ctx, key)
	return presented{rd}, length, err
}

// A body is not kept without its presentation, whatever its key.
func TestPresentedBodies(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	if err := b.Put(t.Context(), key(1), body(1, 100)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tier, err := disktier.Open(dir, 1<<20, presenting{b}, new(seen), quiet())
		if err != nil {
			t.Fatal(err)
		}
		rd, _, err := tier.Open(t.Context(), key(1))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rd)
		if err != nil || !bytes.Equal(got, body(1, 100)) || store.PresentationOf(rd).Status != "404" {
			t.Errorf("read %q, %v, with %+v", got, err, store.PresentationOf(rd))
		}
		if err := errors.Join(rd.Close(), tier.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if found := files(t, dir); len(found) > 0 || b.opened.Load() != 2 {
		t.Errorf("kept %q after %d reads of the bucket", found, b.opened.Load())
	}
}

// Damaged files, parts of files, and what a crash has left are never served.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	tier := open(t, dir, 1<<20, b, new(seen))
	if err := tier.Put(t.Context(), key(1), body(1, 5000)); err != nil {
		t.Fatal(err)
	}
	if err := tier.Close(); err != nil {
		t.Fatal(err)
	}
	file := files(t, dir)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(whole)
	other[100] ^= 1
	for name, content := range map[string][]byte{"empty": nil, "a part": whole[:3000], "the header": whole[:15], "another bit": other, "zeros": make([]byte, len(whole)), "longer": append(bytes.Clone(whole), 'x')} {
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.WriteFile(filepath.Join(filepath.Dir(file), ".tmp-crashed"), whole[:100], 0o600)); err != nil {
			t.Fatal(err)
		}
		tier := open(t, dir, 1<<20, b, new(seen))
		if got, err := tier.ReadLocal(t.Context(), key(1), 5000); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if got := read(t, tier, key(1)); !bytes.Equal(got, body(1, 5000)) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		if err := tier.Close(); err != nil {
			t.Fatal(err)
		}
		if found := files(t, dir); len(found) != 1 {
			t.Errorf("%s: left: %q", name, found)
		}
	}
}

// A misstating store states wrong lengths of bodies.
type misstating struct {
	store.BodyStore
	length int64
}

func (m *misstating) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	rd, _, err := m.BodyStore.Open(ctx, key)
	return rd, m.length, err
}

// TestWrongLengths: a body whose length the store states wrongly is passed on, and not kept, and memory is
// allocated for what is read only.
//
// Not parallel: it measures what the process allocates.
func TestWrongLengths(t *testing.T) { //nolint:paralleltest // see above
	bodies := newBucket(t)
	if err := bodies.Put(t.Context(), key(1), body(1, 1000)); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{-1, 0, 999, 1001, 1 << 30} {
		dir := t.TempDir()
		tier, err := disktier.Open(dir, 16<<30, &misstating{bodies, length}, new(seen), quiet())
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rd, stated, err := tier.Open(t.Context(), key(1))
		if err != nil || stated != length {
			t.Fatalf("stated length %d: got %d, %v", length, stated, err)
		}
		got, err := io.ReadAll(rd)
		if err := errors.Join(err, rd.Close(), tier.Close()); err != nil || !bytes.Equal(got, body(1, 1000)) {
			t.Errorf("stated length %d: read %d bytes, %v, want the 1,000 of the body", length, len(got), err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("stated length %d: %d bytes were allocated for a body of 1,000", length, n)
		}
		if found := files(t, dir); len(found) > 0 {
			t.Errorf("stated length %d: kept %v", length, found)
		}
	}
}

// The size is bounded, also after a restart; the bodies that were used last stay.
func TestEviction(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	dir, b, s := t.TempDir(), newBucket(t), new(seen)
	for round := range 3 {
		tier := open(t, dir, limit, b, s)
		for i := range 60 {
			n := 100*round + i
			if err := tier.Put(t.Context(), key(n), body(n, 50_000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := tier.Close(); err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, name := range files(t, dir) {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		if total > limit || s.bytes.Load() > limit || total == 0 {
			t.Errorf("round %d: %d bytes, reported as %d, of %d", round, total, s.bytes.Load(), limit)
		}
	}
	left := files(t, dir)
	old := time.Now().Add(-time.Hour)
	for _, name := range left[1:] {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, dir, 100_000, b, s).Close(); err != nil {
		t.Fatal(err)
	}
	if now := files(t, dir); len(now) != 1 || now[0] != left[0] || s.evicted.Load() == 0 {
		t.Errorf("left: %q, evicted: %d", now, s.evicted.Load())
	}
}

// A folder that cannot be written to costs nothing but its use.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	tier := open(t, dir, 1<<20, b, new(seen))
	for i := range 256 { // files where folders belong fail for root too
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02x", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if err := tier.Put(t.Context(), key(i), body(i, 1000)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, tier, key(i)); !bytes.Equal(got, body(i, 1000)) {
			t.Errorf("body %d: %d bytes", i, len(got))
		}
	}
	if err := tier.Close(); err != nil {
		t.Error(err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	first := open(t, dir, 1<<20, b, new(seen))
	if _, err := disktier.Open(dir, 1<<20, b, new(seen), quiet()); !errors.Is(err, disktier.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second tier in the folder: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, 1<<20, b, new(seen)).Close(); err != nil {
		t.Fatal(err)
	}
}

// Readers, writers and evictions do not disturb each other.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	tier := open(t, t.TempDir(), 1<<20, b, new(seen))
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 100 {
				n := (w*37 + i) % 60
				_ = tier.Put(t.Context(), key(n), body(n, 40_000))
				if got, err := tier.ReadLocal(t.Context(), key(n), 40_000); err == nil && !bytes.Equal(got, body(n, 40_000)) {
					t.Errorf("body %d: %d bytes", n, len(got))
				}
			}
		})
	}
	workers.Wait()
	if err := tier.Close(); err != nil {
		t.Error(err)
	}
}
