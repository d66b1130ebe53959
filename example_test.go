package isr_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
)

// A slow handler behind a cache on one machine.
func Example() {
	ctx, dir := context.Background(), must(os.MkdirTemp("", "isr-example-"))
	defer os.RemoveAll(dir)
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		fmt.Fprintln(w, "Hello from", r.URL.Path)
	})

	db := must(localdynamo.Open(filepath.Join(dir, "table.db"), localdynamo.Options{}))
	defer db.Close()
	if err := dynamostore.CreateTable(ctx, db, "pages"); err != nil {
		log.Fatal(err)
	}
	meta := must(dynamostore.New(db, "pages", dynamostore.Config{}))
	bodies := must(dirbody.Open(filepath.Join(dir, "bodies"), dirbody.Options{}))
	defer bodies.Close()
	cache := must(isr.New(meta, bodies, isr.Config{Logger: slog.New(slog.DiscardHandler)}))
	defer cache.Close(ctx)
	handler := cache.Handler(isr.Route{Revalidate: time.Minute}, hello)

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://example.com/page", nil))
		fmt.Printf("%.9s... %s", w.Header().Get("Cache-Status")[5:], w.Body)
	}
	// Output:
	// fwd=miss;... Hello from /page
	// hit; ttl=... Hello from /page
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
