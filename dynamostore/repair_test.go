package dynamostore_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// newDamageable returns a store on a file, and a function that damages all copies of a text in it.
func newDamageable(t *testing.T) (f *fixture, damage func(text string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	f = newFixture(t, db)
	f.store = newStore(t, db, f.raw.name, dynamostore.Config{Owner: "node-a", Now: f.clock.Now, Replace: db.Replace})
	return f, func(text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		contents, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for at := range contents {
			if !bytes.HasPrefix(contents[at:], []byte(text)) {
				continue
			}
			found++
			if _, err := file.WriteAt([]byte{text[0] ^ 1}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		if found == 0 {
			t.Fatalf("the file has no %q", text)
		}
		if err := db.Check(t.Context()); !errors.Is(err, localdynamo.ErrDamaged) {
			t.Fatalf("Check of the damaged file: %v", err)
		}
	}
}

// wantIntact requires that nothing damaged is left.
func wantIntact(t *testing.T, f *fixture) {
	t.Helper()
	if err := f.raw.db.(*localdynamo.DB).Check(t.Context()); err != nil {
		t.Errorf("damage is left: %v", err)
	}
}

// titled returns an entry with a text that can be damaged.
func titled(f *fixture) store.Entry {
	entry := f.entry("1")
	entry.Header.Set("Link", "the title")
	return entry
}

// TestDamagedEntryIsMissing: a page whose META row is damaged counts as missing, and is published again.
func TestDamagedEntryIsMissing(t *testing.T) {
	t.Parallel()
	f, damage := newDamageable(t)
	f.publish(titled(f))
	damage("the title")
	if got := f.read(); got.Entry != nil {
		t.Fatalf("the damaged page is %+v", got.Entry)
	}
	want := f.publish(f.entry("2"))
	if got := f.read(); got.Entry == nil || got.Entry.GenerationID != want.GenerationID {
		t.Errorf("the page is %+v after another publish", got.Entry)
	}
	wantIntact(t, f)
}

// TestDamagedEntryUnderLease: the row is damaged after it was read, so that the publish is the first call to
// meet it. It is refused, and the next one is not.
func TestDamagedEntryUnderLease(t *testing.T) {
	t.Parallel()
	f, damage := newDamageable(t)
	f.publish(titled(f))
	lease, read := f.acquire(), f.read()
	damage("the title")
	_, err := f.store.Publish(t.Context(), lease, read, f.entry("2"), store.PublishOptions{})
	if !errors.Is(err, store.ErrMoved) {
		t.Errorf("Publish: %v, want ErrMoved", err)
	}
	if _, err = f.store.Publish(t.Context(), lease, f.read(), f.entry("3"), store.PublishOptions{}); err != nil {
		t.Errorf("Publish: %v", err)
	}
	wantIntact(t, f)
}

// TestDamagedPurgeCovers: no generation that a damaged purge has covered is served again.
func TestDamagedPurgeCovers(t *testing.T) {
	t.Parallel()
	f, damage := newDamageable(t)
	k := store.Key{Text: "example.com/"}
	_, err := f.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeKey, Value: k.Text, PK: store.HashedPartition(k)}}})
	if err != nil {
		t.Fatal(err)
	}
	damage("\x02skS\x05PURGE")
	record, err := f.store.Read(t.Context(), store.HashedPartition(k))
	if err != nil {
		t.Fatal(err)
	}
	if record.Purges.HardSeq != 1 || record.Purges.Seq != 1 {
		t.Errorf("the purge is %+v, want a hard one of 1", record.Purges)
	}
	wantIntact(t, f)
}

// TestDamagedMarkIsAnError: a mark is not replaced, because it may be the only record of a purge. The error
// says what to do.
func TestDamagedMarkIsAnError(t *testing.T) {
	t.Parallel()
	f, damage := newDamageable(t)
	tag := store.PurgeTarget{Kind: store.PurgeTag, Value: "news"}
	if _, err := f.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{tag}}); err != nil {
		t.Fatal(err)
	}
	damage("\x05value")
	for _, err := range f.store.Marks(t.Context()) {
		if !errors.Is(err, localdynamo.ErrDamaged) || !strings.Contains(err.Error(), "isr restore") {
			t.Errorf("the damaged mark: %v", err)
		}
	}
}
