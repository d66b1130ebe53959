package isr_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

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
