package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

func open(t testing.TB) *store.Bolt {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Check(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestAgainstMap does at random what a map and a sorted list of its keys can
// do too, and compares.
func TestAgainstMap(t *testing.T) {
	s := open(t)
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
				failure := errors.New("no")
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
			t.Fatalf("%q: %q in order, %q by key, want %q", k, v, again, model[string(k)])
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

// TestSnapshot: a reader that has begun sees nothing of a later write, and
// does not hold it up.
func TestSnapshot(t *testing.T) {
	s := open(t)
	err := s.View(func(r store.Reader) error {
		if err := s.Update(func(w store.Writer) error { return w.Put("space", []byte("k"), bytes.Repeat([]byte("x"), 1<<20)) }); err != nil {
			return err
		}
		if r.Get("space", []byte("k")) != nil {
			t.Error("the snapshot has changed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
