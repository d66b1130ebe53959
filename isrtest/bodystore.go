package isrtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// BodyStore checks the contract of [store.BodyStore] on one implementation.
//
// open is called once per subtest, from several goroutines at once, because the
// subtests run in parallel. It returns an empty store that no other subtest uses,
// and closes what it opens with t.Cleanup.
//
// The suite never uses a key that is another key's folder ("a" and "a/b") or that
// differs in letter case alone ("a" and "A"): stores that keep keys as paths cannot
// hold them, and the cache writes none.
func BodyStore(t *testing.T, open func(t *testing.T) store.BodyStore) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store.BodyStore)
	}{
		{"RoundTrip", testRoundTrip},
		{"EmptyBody", testEmptyBody},
		{"LargeBody", testLargeBody},
		{"Ranges", testRanges},
		{"OddKeys", testOddKeys},
		{"InvalidKeys", testInvalidKeys},
		{"NotFound", testNotFound},
		{"PutAgain", testPutAgain},
		{"PutCopies", testPutCopies},
		{"Delete", testDelete},
		{"DeleteMany", testDeleteMany},
		{"ListPrefixes", testListPrefixes},
		{"ListMany", testListMany},
		{"ListStops", testListStops},
		{"EndedContext", testEndedContext},
		{"ConcurrentPutsOfDifferentBodies", testConcurrentDifferentPuts},
		{"ConcurrentPutsOfOneBody", testConcurrentSamePuts},
		{"ConcurrentPutsAndDeletes", testConcurrentPutsAndDeletes},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

func testRoundTrip(t *testing.T, store store.BodyStore) {
	key, body := "bodies/0123abcd/generation-1", []byte("<html>hello</html>")
	mustPut(t, store, key, body)
	mustHold(t, store, key, body)

	// Another generation of the page does not affect the first.
	mustPut(t, store, "bodies/0123abcd/generation-2", []byte("<html>hello again</html>"))
	mustHold(t, store, key, body)
}

func testEmptyBody(t *testing.T, bodies store.BodyStore) {
	mustPut(t, bodies, "bodies/empty", nil)
	mustHold(t, bodies, "bodies/empty", []byte{})
	if err := bodies.Put(t.Context(), "bodies/empty", []byte{}); err != nil {
		t.Errorf("putting the same empty body again: %v", err)
	}
	if err := bodies.Put(t.Context(), "bodies/empty", []byte("x")); !errors.Is(err, store.ErrExists) {
		t.Errorf("putting a byte over an empty body: %v, want ErrExists", err)
	}
}

func testLargeBody(t *testing.T, bodies store.BodyStore) {
	body := randomBody(8 << 20)
	mustPut(t, bodies, "bodies/large", body)
	mustHold(t, bodies, "bodies/large", body)

	// The bodies differ in the last byte only.
	other := slices.Clone(body)
	other[len(other)-1]++
	if err := bodies.Put(t.Context(), "bodies/large", other); !errors.Is(err, store.ErrExists) {
		t.Errorf("putting another large body: %v, want ErrExists", err)
	}
	if err := bodies.Put(t.Context(), "bodies/large", body); err != nil {
		t.Errorf("putting the same large body again: %v", err)
	}
	mustHold(t, bodies, "bodies/large", body)
}

// Parts of a body are read as [store.OpenRange] does, whether the store is a [store.RangeReader] or not;
// it must be one if it wraps another store.
func testRanges(t *testing.T, bodies store.BodyStore) {
	const key = "bodies/ranges"
	body := randomBody(2<<20 + 3)
	size := int64(len(body))
	mustPut(t, bodies, key, body)
	for _, r := range []struct{ offset, length int64 }{{0, 1}, {0, size}, {size - 1, 1}, {1 << 20, 64 << 10}, {1, size - 1}, {0, size - 1}} {
		got, total, err := readRange(t.Context(), bodies, key, r.offset, r.length)
		if want := body[r.offset : r.offset+r.length]; err != nil || total != size || !bytes.Equal(got, want) {
			t.Errorf("%d bytes from %d: %d bytes of %d, %v", r.length, r.offset, len(got), total, err)
		}
	}
	for _, r := range []struct{ offset, length int64 }{{0, size + 1}, {size, 1}, {size + 1, 1}, {-1, 1}, {0, 0}, {0, -1}, {1, math.MaxInt64}} {
		if got, _, err := readRange(t.Context(), bodies, key, r.offset, r.length); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("%d bytes from %d: %d bytes, %v, want ErrInvalidInput", r.length, r.offset, len(got), err)
		}
	}
	if _, _, err := store.OpenRange(t.Context(), bodies, "bodies/none", 0, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a part of a missing body: %v, want ErrNotFound", err)
	}
	if _, _, err := store.OpenRange(t.Context(), bodies, "../x", 0, 1); !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("a part under an invalid key: %v, want ErrInvalidKey", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := store.OpenRange(ended, bodies, key, 0, 1); err == nil {
		t.Error("OpenRange under an ended context succeeded")
	}
}

// readRange reads a part of a body to its end.
func readRange(ctx context.Context, bodies store.BodyStore, key string, offset, length int64) ([]byte, int64, error) {
	rd, size, err := store.OpenRange(ctx, bodies, key, offset, length)
	if err != nil {
		return nil, 0, err
	}
	got, err := io.ReadAll(rd)
	return got, size, errors.Join(err, rd.Close())
}

func testOddKeys(t *testing.T, store store.BodyStore) {
	keys := []string{
		"single", "with space/in both", "plus+and%20percent", "query?a=b&c#fragment", "quote'\"<>`",
		"ünïcode/日本語/😀", ".hidden/..twodots/...", "UPPER/Case", "a.body", "trailing./dot.", "comma,semi;colon:at@",
		strings.Repeat("long/", 203) + "enough---", // 1,024 bytes
		strings.Repeat("e", 200) + "/" + strings.Repeat("f", 200),
	}
	for _, key := range keys {
		mustPut(t, store, key, []byte("body of "+key))
	}
	for _, key := range keys {
		mustHold(t, store, key, []byte("body of "+key))
	}
	mustList(t, store, "", keys)
	for _, key := range keys {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Errorf("deleting %q: %v", key, err)
		}
	}
	mustList(t, store, "", nil)
}

func testInvalidKeys(t *testing.T, bodies store.BodyStore) {
	// Keys are checked before any I/O, so an ended context makes no difference.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{
		"", "/", "/absolute", "folder/", "a//b", ".", "..", "a/./b", "../escape", "a/../../escape", "a/..",
		`back\slash`, "nul\x00", "line\nbreak", "not\xffutf8", strings.Repeat("k", 1025),
	} {
		for _, ctx := range []context.Context{t.Context(), ended} {
			_, _, openErr := bodies.Open(ctx, key)
			_, statErr := bodies.Stat(ctx, key)
			for call, err := range map[string]error{
				"Put":    bodies.Put(ctx, key, []byte("x")),
				"Open":   openErr,
				"Stat":   statErr,
				"Delete": bodies.Delete(ctx, key),
			} {
				if !errors.Is(err, store.ErrInvalidKey) {
					t.Errorf("%s(%.40q): %v, want ErrInvalidKey", call, key, err)
				}
			}
		}
	}
	mustList(t, bodies, "", nil)
}

func testNotFound(t *testing.T, store store.BodyStore) {
	mustPut(t, store, "bodies/page/there", []byte("x"))
	for _, key := range []string{"nothing", "bodies/page/gone", "bodies/page", "bodies/other/gone"} {
		mustMiss(t, store, key)
		if err := store.Delete(t.Context(), key); err != nil {
			t.Errorf("deleting the missing body %q: %v", key, err)
		}
	}
	mustList(t, store, "", []string{"bodies/page/there"})
}

func testPutAgain(t *testing.T, bodies store.BodyStore) {
	key, body := "bodies/page/1", []byte("first content")
	mustPut(t, bodies, key, body)
	if err := bodies.Put(t.Context(), key, slices.Clone(body)); err != nil {
		t.Errorf("putting the same bytes again: %v", err)
	}
	for _, other := range []string{"", "other content", "first", "first content and more"} {
		err := bodies.Put(t.Context(), key, []byte(other))
		if !errors.Is(err, store.ErrExists) {
			t.Errorf("putting %q over %q: %v, want ErrExists", other, body, err)
			continue
		}
		if !strings.Contains(err.Error(), key) {
			t.Errorf("the error does not name the key %q: %v", key, err)
		}
	}
	mustHold(t, bodies, key, body)
}

func testPutCopies(t *testing.T, store store.BodyStore) {
	body := []byte("as it was put")
	mustPut(t, store, "bodies/page/1", body)
	copy(body, "XXXXXXXXXXXXX")
	mustHold(t, store, "bodies/page/1", []byte("as it was put"))
}

func testDelete(t *testing.T, store store.BodyStore) {
	mustPut(t, store, "bodies/page/1", []byte("one"))
	mustPut(t, store, "bodies/page/2", []byte("two"))
	mustPut(t, store, "bodies/page/10", []byte("ten"))
	for range 2 { // deleting a missing body is no error
		if err := store.Delete(t.Context(), "bodies/page/1"); err != nil {
			t.Fatal(err)
		}
	}
	mustMiss(t, store, "bodies/page/1")
	mustHold(t, store, "bodies/page/2", []byte("two"))
	mustHold(t, store, "bodies/page/10", []byte("ten"))
	mustList(t, store, "bodies/", []string{"bodies/page/2", "bodies/page/10"})

	// Deleting the last body of a folder leaves nothing that blocks a new one.
	for _, key := range []string{"bodies/page/2", "bodies/page/10"} {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	mustList(t, store, "", nil)
	mustPut(t, store, "bodies/page/3", []byte("three"))
	mustHold(t, store, "bodies/page/3", []byte("three"))
}

// testDeleteMany deletes more bodies than a batch has, some of which are missing.
func testDeleteMany(t *testing.T, bodies store.BodyStore) {
	keys := make([]string, store.MaxBatch+5)
	for i := range keys {
		keys[i] = fmt.Sprintf("bodies/page/%d", i)
		if i%100 == 0 || i > store.MaxBatch {
			mustPut(t, bodies, keys[i], []byte("body"))
		}
	}
	mustPut(t, bodies, "bodies/page/kept", []byte("kept"))
	if n, err := store.DeleteBodies(t.Context(), bodies, keys); n != len(keys) || err != nil {
		t.Fatalf("DeleteBodies: %d of %d, %v", n, len(keys), err)
	}
	mustList(t, bodies, "", []string{"bodies/page/kept"})
	keys = []string{"bodies/page/kept", "../outside", "bodies/page/1"}
	if n, err := store.DeleteBodies(t.Context(), bodies, keys); n > 1 || !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("with an invalid key: %d deleted, %v", n, err)
	}
	if n, err := store.DeleteBodies(t.Context(), bodies, nil); n != 0 || err != nil {
		t.Errorf("no keys: %d deleted, %v", n, err)
	}
}

func testListPrefixes(t *testing.T, store store.BodyStore) {
	keys := []string{"bodies/aa/1", "bodies/aa/2", "bodies/aa/20", "bodies/ab/1", "bodies/a", "bodiesx/1", "other"}
	for _, key := range keys {
		mustPut(t, store, key, []byte(key))
	}
	for _, prefix := range append([]string{
		"", "b", "bodies", "bodies/", "bodies/a", "bodies/aa", "bodies/aa/", "bodies/aa/2", "bodiesx", "o",
		"bodies/aa/1/", "zzz", "bodies/zzz/", "zzz/zzz/", "/", "../", "./bodies", "bodies//",
	}, keys...) {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		mustList(t, store, prefix, want)
	}
}

// testListMany crosses the page size of S3, which is 1,000 keys.
func testListMany(t *testing.T, store store.BodyStore) {
	const count = 1050
	var keys []string
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range count {
		key := fmt.Sprintf("bodies/%02d/%04d", i%7, i)
		keys = append(keys, key)
		group.Go(func() error { return store.Put(ctx, key, []byte(key)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	mustList(t, store, "bodies/", keys)
}

func testListStops(t *testing.T, store store.BodyStore) {
	for i := range 5 {
		mustPut(t, store, fmt.Sprintf("bodies/%d/x", i), []byte("x"))
	}
	seen := 0
	for info, err := range store.List(t.Context(), "") {
		if err != nil || info.Key == "" {
			t.Fatalf("listed %q, %v", info.Key, err)
		}
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("saw %d bodies before the break, want 2", seen)
	}
}

func testEndedContext(t *testing.T, bodies store.BodyStore) {
	mustPut(t, bodies, "bodies/there", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, openErr := bodies.Open(ctx, "bodies/there")
	_, statErr := bodies.Stat(ctx, "bodies/there")
	for call, err := range map[string]error{
		"Put":    bodies.Put(ctx, "bodies/new", []byte("y")),
		"Open":   openErr,
		"Stat":   statErr,
		"Delete": bodies.Delete(ctx, "bodies/there"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s under an ended context: %v, want context.Canceled", call, err)
		}
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDenied) {
			t.Errorf("%s under an ended context: %v, which claims a result that is unknown", call, err)
		}
	}
	steps := 0
	for info, err := range bodies.List(ctx, "") {
		if steps++; !errors.Is(err, context.Canceled) {
			t.Errorf("List under an ended context yields %q, %v; want context.Canceled", info.Key, err)
		}
	}
	if steps != 1 {
		t.Errorf("List under an ended context yields %d times, want one error", steps)
	}
	mustList(t, bodies, "", []string{"bodies/there"})
}

func mustPut(t *testing.T, store store.BodyStore, key string, body []byte) {
	t.Helper()
	if err := store.Put(t.Context(), key, body); err != nil {
		t.Fatalf("putting %q: %v", key, err)
	}
}

// mustHold checks Open, Stat and List of an existing body.
func mustHold(t *testing.T, store store.BodyStore, key string, want []byte) {
	t.Helper()
	got, err := readBody(t.Context(), store, key)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%q holds %d bytes that begin with %.40q, want %d bytes that begin with %.40q", key, len(got), got, len(want), want)
	}
	info, err := store.Stat(t.Context(), key)
	if err != nil {
		t.Fatalf("stat of %q: %v", key, err)
	}
	checkInfo(t, info, key, len(want))
	for info, err := range store.List(t.Context(), key) {
		if err != nil {
			t.Fatalf("listing %q: %v", key, err)
		}
		if info.Key == key {
			checkInfo(t, info, key, len(want))
			return
		}
	}
	t.Fatalf("%q is not listed", key)
}

func checkInfo(t *testing.T, info store.BodyInfo, key string, length int) {
	t.Helper()
	if info.Key != key || info.Length != int64(length) {
		t.Errorf("described as %q of %d bytes, want %q of %d", info.Key, info.Length, key, length)
	}
	if age := time.Since(info.ModifiedAt); age < -time.Minute || age > time.Hour {
		t.Errorf("%q was modified at %v, want a moment ago", key, info.ModifiedAt)
	}
}

func mustMiss(t *testing.T, bodies store.BodyStore, key string) {
	t.Helper()
	_, _, openErr := bodies.Open(t.Context(), key)
	_, statErr := bodies.Stat(t.Context(), key)
	for call, err := range map[string]error{"Open": openErr, "Stat": statErr} {
		if !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDenied) {
			t.Errorf("%s(%q): %v, want ErrNotFound", call, key, err)
		} else if !strings.Contains(err.Error(), key) {
			t.Errorf("the error of %s does not name the key %q: %v", call, key, err)
		}
	}
}

func mustList(t *testing.T, store store.BodyStore, prefix string, want []string) {
	t.Helper()
	var got []string
	for info, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("listing %q: %v", prefix, err)
		}
		got = append(got, info.Key)
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("listing %q gives %d keys %.200q, want %d keys %.200q", prefix, len(got), got, len(want), want)
	}
}

// readBody reads a body to its end and checks the length that Open returned.
func readBody(ctx context.Context, store store.BodyStore, key string) ([]byte, error) {
	r, length, err := store.Open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	body, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	if int64(len(body)) != length {
		return nil, fmt.Errorf("%q has %d bytes, stated were %d", key, len(body), length)
	}
	return body, nil
}

// randomBody returns a body that does not compress and is the same in every run.
func randomBody(length int) []byte {
	body := make([]byte, length)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it never fails
	return body
}
