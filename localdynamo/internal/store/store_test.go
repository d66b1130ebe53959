package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// implementations returns an empty store of each implementation.
func implementations(t *testing.T) map[string]store.Store {
	t.Helper()
	bolt, err := store.Open(filepath.Join(t.TempDir(), "db"), true)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]store.Store{"bolt": bolt, "memory": &store.Memory{}}
}

// onEach runs test on each implementation, and then Check.
func onEach(t *testing.T, test func(*testing.T, store.Store)) {
	t.Parallel()
	for name, s := range implementations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if err := errors.Join(s.Check(), s.Close()); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}
}

// TestModel compares random operations with a map and a sorted list of its keys.
func TestModel(t *testing.T) { onEach(t, testModel) }

func testModel(t *testing.T, s store.Store) {
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		space := fmt.Sprint("space", round)
		model := map[string]string{}
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab\u00ff")), 1, 3, -1)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				must(t, s.Update(func(w store.Writer) error {
					for range rapid.IntRange(1, 10).Draw(t, "n") {
						k, v := key.Draw(t, "key"), rapid.String().Draw(t, "value")
						if rapid.Bool().Draw(t, "delete") {
							delete(model, k)
							must(t, w.Delete(space, []byte(k)))
						} else {
							model[k] = v
							must(t, w.Put(space, []byte(k), []byte(v)))
						}
					}
					compare(t, w, space, model)
					return nil
				}))
			},
			"drop": func(t *rapid.T) {
				must(t, s.Update(func(w store.Writer) error {
					must(t, w.Put(space, []byte("going"), []byte("gone")))
					must(t, w.Drop(space))
					must(t, w.Drop("unknown"))
					clear(model)
					compare(t, w, space, model)
					if rapid.Bool().Draw(t, "again") {
						model["back"] = ""
						must(t, w.Put(space, []byte("back"), nil))
						compare(t, w, space, model)
					}
					return nil
				}))
			},
			"fail": func(t *rapid.T) {
				failure := errors.New("rolled back")
				err := s.Update(func(w store.Writer) error {
					must(t, w.Put(space, []byte(key.Draw(t, "key")), []byte("never")))
					if rapid.Bool().Draw(t, "drop") {
						must(t, w.Drop(space))
					}
					return failure
				})
				if !errors.Is(err, failure) {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				must(t, s.View(func(r store.Reader) error {
					compare(t, r, space, model)
					return nil
				}))
			},
		})
	})
}

func compare(t *rapid.T, r store.Reader, space string, model map[string]string) {
	bound := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return []byte(rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 3, -1).Draw(t, "bound"))
	})
	lo, hi, reverse := bound.Draw(t, "lo"), bound.Draw(t, "hi"), rapid.Bool().Draw(t, "reverse")
	var want, got []string
	for k := range model {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	if reverse {
		slices.Reverse(want)
	}
	limit := rapid.IntRange(1, 8).Draw(t, "limit")
	r.Range(space, lo, hi, reverse, func(k, v []byte) bool {
		if again := r.Get(space, k); model[string(k)] != string(v) || again == nil || !bytes.Equal(again, v) {
			t.Fatalf("%q: Range %q, Get %q, want %q", k, v, again, model[string(k)])
		}
		got = append(got, string(k))
		return len(got) < limit
	})
	if !slices.Equal(got, want[:min(limit, len(want))]) {
		t.Fatalf("[%q, %q) reverse %v: %q, want %q", lo, hi, reverse, got, want)
	}
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotIsolation: a reader does not see later writes and does not block them.
func TestSnapshotIsolation(t *testing.T) { onEach(t, testSnapshotIsolation) }

func testSnapshotIsolation(t *testing.T, s store.Store) {
	const n = 300
	number := func(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }
	update(t, s, func(w store.Writer) error {
		for i := range n {
			if err := w.Put("space", number(i), number(i)); err != nil {
				return err
			}
		}
		return w.Put("other", []byte("k"), []byte("v"))
	})
	err := s.View(func(r store.Reader) error {
		for i := range n {
			update(t, s, func(w store.Writer) error {
				if i%2 == 0 {
					return w.Delete("space", number(i))
				}
				return w.Put("space", number(i), bytes.Repeat([]byte("x"), i))
			})
		}
		update(t, s, func(w store.Writer) error { return w.Drop("other") })
		seen := 0
		r.Range("space", nil, nil, false, func(key, value []byte) bool {
			if !bytes.Equal(key, number(seen)) || !bytes.Equal(value, key) {
				t.Errorf("key %x: %x", key, value)
			}
			seen++
			return true
		})
		if seen != n || r.Get("other", []byte("k")) == nil {
			t.Errorf("the snapshot changed: %d keys", seen)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, s store.Store, fn func(store.Writer) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentReaders: while a writer runs, each reader sees the counters of one
// transaction, and never goes back to an older one.
func TestConcurrentReaders(t *testing.T) { onEach(t, testConcurrentReaders) }

func testConcurrentReaders(t *testing.T, s store.Store) {
	const rounds, counters = 300, 50
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			last := uint64(0)
			for {
				at := consistentRound(t, s)
				if at < last {
					t.Errorf("round %d after %d", at, last)
				}
				last = at
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for round := range rounds {
		update(t, s, func(w store.Writer) error {
			if round%10 == 0 {
				if err := w.Drop("space"); err != nil {
					return err
				}
			}
			for i := range counters {
				if err := w.Put("space", []byte{byte(i) + 1}, binary.BigEndian.AppendUint64(nil, uint64(round))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	close(done)
	readers.Wait()
	if at := consistentRound(t, s); at != rounds-1 {
		t.Errorf("the last round is %d", at)
	}
}

// consistentRound returns the round of all counters. They must agree.
func consistentRound(t *testing.T, s store.Store) uint64 {
	rounds := map[uint64]bool{}
	last := uint64(0)
	err := s.View(func(r store.Reader) error {
		r.Range("space", nil, nil, true, func(_, value []byte) bool {
			last = binary.BigEndian.Uint64(value)
			rounds[last] = true
			return true
		})
		return nil
	})
	if err != nil || len(rounds) > 1 {
		t.Errorf("rounds %v, error %v", rounds, err)
	}
	return last
}

// TestKeyLength: all implementations accept and reject the same key lengths.
func TestKeyLength(t *testing.T) {
	onEach(t, func(t *testing.T, s store.Store) {
		for _, n := range []int{0, 32769} {
			if err := s.Update(func(w store.Writer) error { return w.Put("space", make([]byte, n), nil) }); err == nil {
				t.Errorf("key of %d bytes accepted", n)
			}
		}
		longest := make([]byte, 32768)
		update(t, s, func(w store.Writer) error { return w.Put("space", longest, nil) })
		if err := s.View(func(r store.Reader) error {
			if r.Get("space", longest) == nil {
				t.Error("key of the maximum length was not stored")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestClosed: a closed store returns errors; it must not look empty.
func TestClosed(t *testing.T) {
	t.Parallel()
	for name, s := range implementations(t) {
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.View(func(store.Reader) error { return nil }); err == nil {
			t.Errorf("%s: read after Close", name)
		}
		if err := s.Update(func(store.Writer) error { return nil }); err == nil {
			t.Errorf("%s: write after Close", name)
		}
	}
}
