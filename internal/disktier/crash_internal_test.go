package disktier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/localfile/crashfs"
	"github.com/facetheory/isr/store"
)

// A bucket is a store on the network, which no crash of this machine harms.
type bucket struct {
	mu     sync.Mutex
	bodies map[string][]byte // guarded by mu
}

func (b *bucket) get(key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, ok := b.bodies[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return body, nil
}

func (b *bucket) Put(_ context.Context, key string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, ok := b.bodies[key]; ok && !bytes.Equal(other, body) {
		return store.ErrExists
	}
	b.bodies[key] = body
	return nil
}

func (b *bucket) Open(_ context.Context, key string) (io.ReadCloser, int64, error) {
	body, err := b.get(key)
	return io.NopCloser(bytes.NewReader(body)), int64(len(body)), err
}

func (b *bucket) Stat(_ context.Context, key string) (store.BodyInfo, error) {
	body, err := b.get(key)
	return store.BodyInfo{Key: key, Length: int64(len(body))}, err
}

func (b *bucket) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bodies, key)
	return nil
}

func (b *bucket) List(context.Context, string) iter.Seq2[store.BodyInfo, error] {
	return func(func(store.BodyInfo, error) bool) {}
}

type unseen struct{}

func (unseen) DiskCacheRead(bool)   {}
func (unseen) DiskCacheEvicted(int) {}
func (unseen) DiskCacheSize(int64)  {}

// A workload is bodies that a tier keeps, of which it has room for some.
type workload struct {
	limit  int64
	bodies [][]byte
}

// workloads returns one with bodies that are written at once, more than fit, and one with a body that is written as it
// is read.
func workloads() map[string]workload {
	short := workload{limit: 80 << 10}
	for i, length := range []int{1000, 5000, 0, 3000, 9000, 9000, 9000, 9001, 9002, 9003, 9004, 9005, 9006, 9007} {
		short.bodies = append(short.bodies, numbered(i, length))
	}
	long := workload{limit: maxShare * 260 << 10}
	for i, length := range []int{100, 257 << 10, 600} {
		long.bodies = append(long.bodies, numbered(i, length))
	}
	return map[string]workload{"short": short, "long": long}
}

// numbered returns a body, no two of whose sectors are equal to each other, or to sectors of another.
func numbered(i, length int) []byte {
	var body bytes.Buffer
	for at := 0; body.Len() < length; at++ {
		fmt.Fprintf(&body, "%d:%07d,", i, at)
	}
	return body.Bytes()[:length]
}

// A node keeps bodies of a bucket on a disk that crashes.
type node struct {
	t      *testing.T
	about  string
	limit  int64
	disk   *crashfs.Disk
	bucket *bucket
	bodies map[string][]byte // of all keys
	gone   map[string]bool   // keys that were deleted
}

func newNode(t *testing.T, w workload, about string) *node {
	n := &node{t: t, about: about, limit: w.limit, disk: crashfs.New(), bucket: &bucket{bodies: make(map[string][]byte)}, bodies: make(map[string][]byte), gone: make(map[string]bool)}
	for i, body := range w.bodies {
		n.bodies[nodeKey(i)] = body
	}
	return n
}

func nodeKey(i int) string { return fmt.Sprintf("bodies/%064x/g", i) }

func (n *node) open() (*Tier, error) {
	return openIn(n.disk.Open(), "disk", n.limit, n.bucket, unseen{}, slog.New(slog.DiscardHandler))
}

// work puts, reads, evicts and deletes bodies. What it reads is right, also when the disk has crashed.
func (n *node) work(tier *Tier) {
	ctx := context.Background()
	for i := range len(n.bodies) {
		key := nodeKey(i)
		if i%3 == 1 {
			_ = n.bucket.Put(ctx, key, n.bodies[key]) // by another node
			n.read(tier, key)
		} else if err := tier.Put(ctx, key, n.bodies[key]); err != nil {
			n.t.Errorf("%s: %v", n.about, err)
		}
		synctest.Wait() // it is written in the background
		n.read(tier, key)
		n.readPart(tier, key)
		time.Sleep(time.Second) // so that the oldest is known
	}
	last := len(n.bodies) - 1
	n.delete(tier, func() error { return tier.Delete(ctx, nodeKey(last)) }, nodeKey(last))
	n.delete(tier, func() error {
		_, err := tier.DeleteBatch(ctx, []string{nodeKey(last - 1), nodeKey(last - 2)})
		return err
	}, nodeKey(last-1), nodeKey(last-2))
}

func (n *node) delete(tier *Tier, remove func() error, keys ...string) {
	if err := remove(); err != nil {
		n.t.Errorf("%s: %v", n.about, err)
	}
	for _, key := range keys {
		n.gone[key] = !n.disk.Crashed() // or the crash may have come before the removal of the copy
		if _, err := tier.ReadLocal(context.Background(), key, 1<<20); !errors.Is(err, store.ErrNotFound) {
			n.t.Errorf("%s: %s was deleted, and is read: %v", n.about, key, err)
		}
	}
}

func (n *node) read(tier *Tier, key string) {
	rd, length, err := tier.Open(context.Background(), key)
	if err != nil {
		n.t.Errorf("%s: %s: %v", n.about, key, err)
		return
	}
	got, err := io.ReadAll(rd)
	if err := errors.Join(err, rd.Close()); err != nil || !bytes.Equal(got, n.bodies[key]) || length != int64(len(got)) {
		n.t.Errorf("%s: %s has %d bytes, which differ from the bytes of its Put: %v", n.about, key, len(got), err)
	}
}

func (n *node) readPart(tier *Tier, key string) {
	want := n.bodies[key]
	if len(want) == 0 {
		return // it has no parts
	}
	want = want[len(want)/2:]
	rd, _, err := tier.OpenRange(context.Background(), key, int64(len(n.bodies[key])-len(want)), int64(len(want)))
	if err != nil {
		n.t.Errorf("%s: a part of %s: %v", n.about, key, err)
		return
	}
	got, err := io.ReadAll(rd)
	if err := errors.Join(err, rd.Close()); err != nil || !bytes.Equal(got, want) {
		n.t.Errorf("%s: a part of %s has %d bytes, which differ from the bytes of its Put: %v", n.about, key, len(got), err)
	}
}

// check opens the tier after a crash. No body has other content than its Put, nothing is left of unfinished writes,
// and what was deleted is gone, unless its folder has forgotten that in a power failure.
func (n *node) check(killed bool) {
	n.t.Helper()
	tier, err := n.open()
	if err != nil {
		n.t.Fatalf("%s: %v", n.about, err)
	}
	names := map[string]bool{lockFile: true}
	for key := range n.bodies {
		names[fileName(key)] = true
	}
	for name := range n.disk.Files() {
		if !names[name] {
			n.t.Errorf("%s: %s is left", n.about, name)
		}
	}
	for i := range len(n.bodies) {
		key := nodeKey(i)
		body, err := tier.ReadLocal(context.Background(), key, 1<<20)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound), err == nil && !bytes.Equal(body, n.bodies[key]):
			n.t.Errorf("%s: %s has %d bytes, which differ from the bytes of its Put: %v", n.about, key, len(body), err)
		case err == nil && n.gone[key] && killed:
			n.t.Errorf("%s: %s was deleted, and is read", n.about, key)
		}
		if _, err := n.bucket.get(key); err == nil {
			n.readPart(tier, key)
			n.read(tier, key)
			synctest.Wait()
			n.read(tier, key)
		}
	}
	if err := tier.Close(); err != nil {
		n.t.Errorf("%s: %v", n.about, err)
	}
	total := int64(0)
	for name, content := range n.disk.Files() {
		if name != lockFile {
			total += footprint(int64(len(content)))
		}
	}
	if total != tier.bytes.Load() || total > n.limit+footprint(n.limit/maxShare) {
		n.t.Errorf("%s: the files take %d bytes, %d are counted", n.about, total, tier.bytes.Load())
	}
}

// TestEveryCrashPoint crashes a tier at every call that changes something. It never serves anything but the bodies.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for name, w := range workloads() {
		calls := 0
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, w, name)
			tier, err := n.open()
			if err != nil {
				t.Fatal(err)
			}
			n.work(tier)
			if err := tier.Close(); err != nil {
				t.Error(err)
			}
			calls = n.disk.Calls()
			if trace := strings.Join(n.disk.Trace(), "\n"); strings.Count(trace, "remove ") < len(w.bodies)/2 {
				t.Errorf("nothing was evicted:\n%s", trace)
			}
			n.check(true)
		})
		for at := 1; at <= calls && !t.Failed(); at++ {
			crashAt(t, name, w, at)
		}
	}
}

// crashAt crashes a tier at one call, by a kill and by power failures that lose all, nothing and a part of what was
// written.
func crashAt(t *testing.T, name string, w workload, at int) {
	type loss struct {
		loss crashfs.Loss
		seed uint64
	}
	for _, l := range []*loss{nil, {crashfs.LoseAll, 0}, {crashfs.LoseNone, 0}, {crashfs.LoseSome, 1}, {crashfs.LoseSome, 2}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, w, fmt.Sprintf("%s, crash at call %d, loss %v", name, at, l))
			n.disk.CrashAt(at)
			if tier, err := n.open(); err == nil {
				n.work(tier)
				_ = tier.Close()
			}
			if l == nil {
				n.disk.Kill()
			} else {
				n.disk.PowerFailure(l.loss, l.seed)
			}
			n.check(l == nil)
		})
	}
}

// A file that is whole, but under the name of another key, is not served: its sum includes the key.
func TestFileOfAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, part := range []bool{false, true} {
			n := newNode(t, workloads()["short"], "a file of another key")
			n.bodies[nodeKey(1)] = bytes.Repeat([]byte("x"), len(n.bodies[nodeKey(0)]))
			tier, err := n.open()
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if err := tier.Put(t.Context(), nodeKey(i), n.bodies[nodeKey(i)]); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			other := n.disk.Files()[fileName(nodeKey(0))]
			if err := n.disk.Corrupt(fileName(nodeKey(1)), func([]byte) []byte { return other }); err != nil {
				t.Fatal(err)
			}
			if part {
				n.readPart(tier, nodeKey(1))
			}
			n.read(tier, nodeKey(1))
			n.read(tier, nodeKey(0))
			if err := tier.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
