package isr_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// openExample makes a cache with stores of its own, which stop deletes.
func openExample(ctx context.Context) (cache *isr.Cache, stop func()) {
	dir := must(os.MkdirTemp("", "isr-example-"))
	db := localdynamo.OpenMemory(localdynamo.Options{})
	if err := dynamostore.CreateTable(ctx, db, "pages"); err != nil {
		log.Fatal(err)
	}
	bodies := must(dirbody.Open(dir, dirbody.Options{}))
	cache = must(isr.New(must(dynamostore.New(db, "pages", dynamostore.Config{})), bodies,
		isr.Config{Logger: slog.New(slog.DiscardHandler), Poll: -1}))
	return cache, func() {
		_ = cache.Close(ctx)
		_ = bodies.Close()
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

// A page that was published with a mistake is rolled back, until it is unpinned.
func ExampleCache_Rollback() {
	ctx := context.Background()
	cache, stop := openExample(ctx)
	defer stop()
	text := "Good morning"
	handler := cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute, History: 10},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }))
	page := must(store.ParseKey("", "https://example.com/"))

	must(cache.Regenerate(ctx, page))
	text = "Good mourning"
	must(cache.Regenerate(ctx, page))

	e := must(cache.Rollback(ctx, page))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
	fmt.Print(w.Body)
	fmt.Println("pinned for ever:", e.PinnedUntil.Equal(store.Forever()))
	_, err := cache.Regenerate(ctx, page)
	fmt.Println(err)
	for _, v := range must(cache.Versions(ctx, page)) {
		fmt.Println("kept:", v.Length, "bytes, current:", v.Current)
	}
	// Output:
	// Good morning
	// pinned for ever: true
	// regenerating example.com/: the page is pinned (until it is unpinned)
	// kept: 14 bytes, current: false
	// kept: 13 bytes, current: true
}

// A request with an idempotency key regenerates its page once.
func ExampleWithIdempotencyKey() {
	ctx := context.Background()
	cache, stop := openExample(ctx)
	defer stop()
	renders := 0
	cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		renders++
		fmt.Fprintln(w, "Hello")
	}))
	page := must(store.ParseKey("", "https://example.com/"))

	inputs := isr.WithInputs(map[string]any{"deploy": "2026-11-21.3", "page": page.Text})
	for range 2 {
		r := must(cache.Regenerate(ctx, page, isr.WithIdempotencyKey("deploy-2026-11-21.3"), inputs))
		fmt.Println("replayed:", r.Replayed)
	}
	_, err := cache.Regenerate(ctx, page, isr.WithIdempotencyKey("deploy-2026-11-21.3"), isr.WithInputs("another request"))
	fmt.Println(err)
	fmt.Println("renders:", renders)
	// Output:
	// replayed: false
	// replayed: true
	// regenerating example.com/: request "deploy-2026-11-21.3": the idempotency key was used for other inputs; use a new key for a new request
	// renders: 1
}

// The price of a product has changed. One purge covers all pages that show it, whatever
// their number, by the tag that the origin gave them.
func ExampleCache_Purge() {
	ctx := context.Background()
	cache, stop := openExample(ctx)
	defer stop()
	price := 20
	handler := cache.Handler(isr.Route{Name: "shop", Revalidate: time.Hour}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/imprint" {
			w.Header().Set("Surrogate-Key", "product-7")
		}
		fmt.Fprintf(w, "%s: $%d\n", r.URL.Path, price)
	}))
	visit := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.com"+path, nil))
		fmt.Print(w.Body)
	}
	for _, path := range []string{"/product/7", "/category/toys", "/imprint"} {
		visit(path)
	}

	price = 15
	receipt := must(cache.Purge(ctx, isr.Purge{
		Targets: []store.PurgeTarget{isr.PurgeTag("", "product-7")},
		Hard:    true, // no visitor gets the old price, not even while pages are regenerated
	}))
	fmt.Println("purge", receipt.Seq)
	for _, path := range []string{"/product/7", "/category/toys", "/imprint"} {
		visit(path)
	}
	// Output:
	// /product/7: $20
	// /category/toys: $20
	// /imprint: $20
	// purge 1
	// /product/7: $15
	// /category/toys: $15
	// /imprint: $20
}
