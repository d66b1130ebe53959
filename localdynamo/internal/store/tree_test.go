package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// TestLookUpsInTrees: the checks of branch pages and neighbours never fail on an intact file, however its tree was
// made: by insertions and deletions in all orders, which split, merge and empty pages.
func TestLookUpsInTrees(t *testing.T) {
	t.Parallel()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(7, 8))
	name := func(i int) []byte {
		return fmt.Appendf(nil, "key %06d of some length, so that a page has few of them", i)
	}
	const most = 6000
	held := make(map[int]bool)
	for round := range 120 {
		low, n := random.IntN(most), 1+random.IntN(400)
		deleting := random.IntN(2) == 0
		err := s.Update(func(w store.Writer) (failed error) {
			for i := low; i < min(low+n, most); i++ {
				at := i
				if round%3 == 0 {
					at = random.IntN(most)
				}
				held[at] = !deleting
				if deleting {
					failed = errors.Join(failed, w.Delete("space", name(at)))
				} else {
					failed = errors.Join(failed, w.Put("space", name(at), make([]byte, random.IntN(200))))
				}
				lookUp(t, w, held, name, random.IntN(most))
			}
			return failed
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		err = s.View(func(r store.Reader) error {
			for range 300 {
				lookUp(t, r, held, name, random.IntN(most))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// lookUp compares a look-up of a key, and ranges that begin and end with it, with what is held.
func lookUp(t *testing.T, r store.Reader, held map[int]bool, name func(int) []byte, i int) {
	t.Helper()
	if found := r.Get("space", name(i)) != nil; found != held[i] {
		t.Fatalf("key %d: found %v, want %v", i, found, held[i])
	}
	directions := []bool{false, true}
	if _, writes := r.(store.Writer); writes {
		directions = directions[:1] // bbolt's Prev stops at a page that the transaction has emptied
	}
	for _, reverse := range directions {
		want, got := 0, 0
		for j := i; j < i+20; j++ {
			if held[j] {
				want++
			}
		}
		r.Range("space", name(i), name(i+20), reverse, func(_, _ []byte) bool { got++; return true })
		if got != want {
			t.Fatalf("the range of 20 keys from %d has %d, want %d", i, got, want)
		}
	}
}
