package dynamostore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// TestDamagedTableFailsFast: a publish that can never succeed is refused at once, not
// repeated until its lease ends. The same holds for other calls on a damaged table.
func TestDamagedTableFailsFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose time goes on only while all wait
		path := filepath.Join(t.TempDir(), "db")
		db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() }) // it is damaged
		f := newFixture(t, db)
		f.publish(f.entry("1"))
		lease, read := f.acquire(), f.read()
		damage(t, path)

		began := time.Now()
		_, err = f.store.Publish(t.Context(), lease, read, f.entry("2"), store.PublishOptions{})
		if !errors.Is(err, localdynamo.ErrCorrupt) || dynamostore.OutcomeOf(err) != tabletheory.Refused {
			t.Errorf("Publish: %s, %v", dynamostore.OutcomeOf(err), err)
		}
		if _, err := f.store.Read(t.Context(), pk); !errors.Is(err, localdynamo.ErrCorrupt) {
			t.Errorf("Read: %v", err)
		}
		if _, err := f.store.Acquire(t.Context(), pk+"2", time.Minute, nil); !errors.Is(err, localdynamo.ErrCorrupt) {
			t.Errorf("Acquire: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// damage overwrites all pages of an open file except the two meta pages.
func damage(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err == nil {
		head := int64(2 * os.Getpagesize())
		_, err = file.WriteAt(make([]byte, info.Size()-head), head)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
