package dynamostore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/facetheory/isr/store"
)

// mark stores a mark with a hard purge at a sequence.
func (f *fixture) mark(tenant, kind, value string, hard int64) {
	f.t.Helper()
	sum := sha256.Sum256([]byte(value))
	f.raw.put("PURGE", "MARK#"+tenant+"#"+kind+"#"+hex.EncodeToString(sum[:]), attrs{
		"value": str(value), "seq": num(fmt.Sprint(hard)), "hard_seq": num(fmt.Sprint(hard)), "at": num(seconds(f.clock.Now())),
	})
}

// TestRollbackOfMarked: the marks of a tenant, and the marks of sites, which have the
// empty tenant, cover the tenant's pages. Pin reads the same marks.
func TestRollbackOfMarked(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, test := range []struct {
			tenant, kind, value string
			covers              bool
		}{
			{"t1", "tag", "news", true},
			{"t1", "tag", "sport", false},
			{"t1", "prefix", "example.com/", true},
			{"t1", "tenant", "t1", true},
			{"t1", "site", "example.com", true},
			{"t1", "zone", "de", true},  // an unknown kind, after the tags in sort order
			{"t1", "audio", "de", true}, // and before them
			{"t1", "tagged", "de", true},
			{"", "site", "example.com", true},
			{"", "tag", "news", false},
			{"", "prefix", "example.com/", false},
			{"t", "tenant", "t", false},
			{"t11", "tenant", "t11", false},
		} {
			f := newFixture(t, db)
			f.keep("g1") // at sequence 3, with the tag news
			f.keep("g2")
			f.raw.put("PURGE", "SEQ", attrs{"seq": num("9")})
			f.mark(test.tenant, test.kind, test.value, 3)
			a := f.assertion()
			a.PinnedUntil = store.Forever()
			if _, err := f.store.Pin(t.Context(), f.read(), a); err != nil {
				t.Errorf("%v at the sequence of the generation: Pin: %v", test, err)
			}
			f.mark(test.tenant, test.kind, test.value, 4)
			_, rollback := f.store.Rollback(t.Context(), f.read(), "g1", a)
			_, pin := f.store.Rollback(t.Context(), f.read(), f.read().Entry.GenerationID, a)
			if test.covers != errors.Is(rollback, store.ErrPurged) || test.covers != errors.Is(pin, store.ErrPurged) {
				t.Errorf("%v: Rollback: %v; Pin: %v; want ErrPurged: %t", test, rollback, pin, test.covers)
			}
			if !test.covers && (rollback != nil || pin != nil) {
				t.Errorf("%v: Rollback: %v; Pin: %v", test, rollback, pin)
			}
			if _, err := f.store.Pin(t.Context(), f.read(), f.assertion()); err != nil {
				t.Errorf("%v: unpin: %v", test, err)
			}
		}
	})
}

// TestMarksOfManyTags: an entry has more tags than the keys of one BatchGetItem, and
// a mark of the last tag.
func TestMarksOfManyTags(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		first := f.entry("g1")
		for i := range 250 {
			first.Tags = append(first.Tags, fmt.Sprintf("tag-%03d", i), "twice")
		}
		f.publishAs(first, store.PublishOptions{History: true})
		f.keep("g2")
		f.mark("t1", "tag", "tag-250", 4)
		if _, err := f.store.Rollback(t.Context(), f.read(), "g1", f.assertion()); err != nil {
			t.Fatal(err)
		}
		f.mark("t1", "tag", "tag-249", 4)
		if _, err := f.store.Rollback(t.Context(), f.read(), "g2", f.assertion()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Rollback(t.Context(), f.read(), "g1", f.assertion()); !errors.Is(err, store.ErrPurged) {
			t.Errorf("Rollback: %v, want ErrPurged", err)
		}
	})
}
