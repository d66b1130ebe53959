package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
)

// reportAllocations measures a cache hit in the handler alone, without net/http.
func reportAllocations(dir string) (err error) {
	ctx := context.Background()
	db, err := localdynamo.Open(filepath.Join(dir, "allocations.db"), localdynamo.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := dynamostore.CreateTable(ctx, db, "pages"); err != nil {
		return err
	}
	meta, err := dynamostore.New(db, "pages", dynamostore.Config{})
	if err != nil {
		return err
	}
	bodies, err := dirbody.Open(filepath.Join(dir, "allocations"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bodies.Close()) }()
	cache, err := isr.New(meta, bodies, isr.Config{})
	if err != nil {
		return err
	}
	handler := cache.Handler(isr.Route{}, page())
	request := httptest.NewRequest(http.MethodGet, "http://example.com/page", http.NoBody)
	handler.ServeHTTP(httptest.NewRecorder(), request)
	w := discard{make(http.Header)}
	hit := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			handler.ServeHTTP(w, request)
		}
	})
	fmt.Printf("\none cache hit in the handler: %d ns, %d allocations, %d bytes\n", hit.NsPerOp(), hit.AllocsPerOp(), hit.AllocedBytesPerOp())
	return cache.Close(ctx)
}

// discard is a ResponseWriter that drops the response.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
