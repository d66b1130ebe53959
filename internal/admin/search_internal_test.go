package admin

import (
	"fmt"
	"testing"

	"github.com/facetheory/isr/store"
)

// Tenants are counted for the search without its tenant, and searched.
func TestFindTenants(t *testing.T) {
	pages := []indexedPage{{lower: "example.com/a", state: "fresh", freshUntil: 2, staleUntil: 2}}
	for _, tenant := range []string{"acme", "other"} {
		for _, text := range []string{"example.com/a", "example.com/b"} {
			pages = append(pages, indexedPage{key: store.Key{Tenant: tenant, Text: text}, lower: text, route: "/", state: "fresh", freshUntil: 2, staleUntil: 2})
		}
	}
	for search, want := range map[PageSearch]string{
		{}:                               "map[acme:2 other:2] map[/:4] map[fresh:5] 5",
		{Tenant: "acme"}:                 "map[acme:2 other:2] map[/:2] map[fresh:2] 2",
		{Tenant: "acme", Text: "/b"}:     "map[acme:1 other:1] map[/:1] map[fresh:1] 1",
		{Tenant: "none"}:                 "map[acme:2 other:2] map[] map[] 0",
		{Tenant: "acme", State: "stale"}: "map[] map[] map[fresh:2] 0",
	} {
		found := FoundPages{States: map[string]int{}, Routes: map[string]int{}, Tenants: map[string]int{}}
		n := len((&finder{PageSearch: search, now: 1}).find(pages, &found))
		if got := fmt.Sprint(found.Tenants, found.Routes, found.States, n); got != want {
			t.Errorf("%+v: got %s, want %s", search, got, want)
		}
	}
}
