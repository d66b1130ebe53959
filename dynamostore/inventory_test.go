package dynamostore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr/store"
)

// TestForeignInventory: rows of other services, on many result pages of a scan and of
// a query.
func TestForeignInventory(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		filler := str(strings.Repeat("x", 300<<10))
		var want []string
		for i := range 5 {
			key := fmt.Sprintf("pages/%d.html", i)
			f.raw.put(pk, fmt.Sprintf("VER#%d", i), attrs{"s3_key": str(key), "filler": filler})
			f.raw.put(pk, fmt.Sprintf("REQ#%d", i), attrs{"result_s3_key": str(key), "s3_key": str("wrong")})
			f.raw.put(pk, fmt.Sprintf("NOTE#%d", i), attrs{"s3_key": str("wrong"), "filler": filler})
			want = append(want, key)
		}
		f.raw.put(pk, "META", attrs{"s3_key": str("s3://bucket/a")})
		f.raw.put(pk, "VER#odd", attrs{"s3_key": num("1")})
		f.raw.put(pk, "LOCK", attrs{"s3_key": str("wrong"), "result_s3_key": str("wrong")})
		got, err := f.store.BodyKeys(t.Context(), pk)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(append(want, "s3://bucket/a"), got); d != "" {
			t.Errorf("BodyKeys (-want +got):\n%s", d)
		}
		f.raw.put("CACHE#note", "NOTE#1", attrs{"s3_key": str("wrong")})
		f.raw.put("CACHE#purged", "PURGE", attrs{"seq": num("1"), "at": num("1")})
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("1")})
		var pages []store.ReferencedBodies
		for page, err := range f.store.ReferencedBodies(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(page.Keys)
			page.Keys = slices.Compact(page.Keys)
			pages = append(pages, page)
		}
		if d := diff([]store.ReferencedBodies{{PK: pk, Keys: append(want, "s3://bucket/a")}}, pages); d != "" {
			t.Errorf("NamedBodies (-want +got):\n%s", d)
		}
	})
}
