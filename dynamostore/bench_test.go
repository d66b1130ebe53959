package dynamostore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// BenchmarkStore measures each method on the embedded engine in memory. The engine takes
// most of the time; the cost of this package shows in the allocations. To compare two
// versions, run both in turns.
func BenchmarkStore(b *testing.B) {
	b.Run("Read", func(b *testing.B) {
		store := benchStore(b)
		benchPublish(b, store, benchAcquire(b, store))
		benchAcquire(b, store)
		b.ReportAllocs()
		for b.Loop() {
			benchRead(b, store)
		}
	})
	b.Run("Acquire", func(b *testing.B) {
		store := benchStore(b)
		b.ReportAllocs()
		for b.Loop() {
			l := benchAcquire(b, store)
			b.StopTimer()
			benchRelease(b, store, l)
			b.StartTimer()
		}
	})
	b.Run("Refresh", func(b *testing.B) {
		store := benchStore(b)
		l := benchAcquire(b, store)
		b.ReportAllocs()
		for b.Loop() {
			if err := store.Refresh(context.Background(), l); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Publish", func(b *testing.B) {
		meta := benchStore(b)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			l, read := benchAcquire(b, meta), benchRead(b, meta)
			b.StartTimer()
			if _, err := meta.Publish(context.Background(), l, read, benchEntry(), store.PublishOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Release", func(b *testing.B) {
		store := benchStore(b)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			l := benchAcquire(b, store)
			b.StartTimer()
			benchRelease(b, store, l)
		}
	})
}

func benchStore(b *testing.B) *dynamostore.Store {
	b.Helper()
	db := localdynamo.OpenMemory(localdynamo.Options{})
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := dynamostore.CreateTable(b.Context(), db, "pages"); err != nil {
		b.Fatal(err)
	}
	store, err := dynamostore.New(db, "pages", dynamostore.Config{Owner: "node-a"})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func benchAcquire(b *testing.B, store *dynamostore.Store) store.Lease {
	l, err := store.Acquire(context.Background(), pk, time.Hour, nil)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func benchRead(b *testing.B, store *dynamostore.Store) store.Record {
	record, err := store.Read(context.Background(), pk)
	if err != nil || record.Malformed != nil {
		b.Fatal(err, record.Malformed)
	}
	return record
}

func benchRelease(b *testing.B, store *dynamostore.Store, l store.Lease) {
	if err := store.Release(context.Background(), l); err != nil {
		b.Fatal(err)
	}
}

func benchPublish(b *testing.B, meta *dynamostore.Store, l store.Lease) {
	if _, err := meta.Publish(context.Background(), l, benchRead(b, meta), benchEntry(), store.PublishOptions{}); err != nil {
		b.Fatal(err)
	}
}

// benchEntry returns a typical entry.
func benchEntry() store.Entry {
	now := time.Now()
	return store.Entry{
		BodyKey: "bodies/5f1c/0123456789abcdef", GeneratedAt: now, Revalidate: time.Minute, ETag: `"0123456789abcdef"`,
		Expires: now.Add(24 * time.Hour), GenerationID: "0123456789abcdef", Key: "https example.com /products/17",
		Route: "product", Status: http.StatusOK, Length: 31_415, Tags: []string{"product-17", "products"}, Stale: time.Hour,
		Header: http.Header{
			"Content-Type": {"text/html; charset=utf-8"}, "Content-Language": {"en"}, "Cache-Control": {"public, max-age=60"},
			"Link": {"</a.css>; rel=preload", "</b.js>; rel=preload"}, "Vary": {"Accept-Encoding"},
		},
		SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", PurgeSeq: 3,
	}
}
