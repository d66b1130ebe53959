package isr_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/store"
)

// evict returns what an eviction removed, by path, in the order of ranks.
func (tb *table) evict(t *testing.T, free int64, pages []string, used func(path string) time.Time) (paths []string, freed int64) {
	t.Helper()
	byPK := make(map[string]string)
	for _, path := range pages {
		byPK[store.HashedPartition(keyOf(path))] = path
	}
	freed, err := gc.Evict(t.Context(), tb.store("room"), tb.bodies, gc.EvictOptions{
		Free:    free,
		LastUse: func(pk string) time.Time { return used(byPK[pk]) },
		Report:  func(e gc.Evicted) { paths = append(paths, byPK[e.PK]) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, freed
}

func keyOf(path string) store.Key { return store.Key{Text: "example.com" + path} }

// The least recently used page is evicted first, with all of its rows and bodies; pages with
// older generations come later, and pinned ones last. A leased page stays.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", History: 3}, site, nil)
		pages := []string{"/0", "/1", "/2", "/held", "/old", "/pinned"}
		for _, path := range pages {
			get(p, path)
		}
		if _, err := p.Regenerate(t.Context(), keyOf("/old")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Pin(t.Context(), keyOf("/pinned"), time.Hour); err != nil {
			t.Fatal(err)
		}
		lease, err := p.store.Acquire(t.Context(), store.HashedPartition(keyOf("/held")), time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		used := func(path string) time.Time { // the pinned page longest ago, then /old, /0, /1 …
			at := longAfter()
			switch path {
			case "/pinned", "/old":
				return at
			}
			return at.Add(time.Duration(slices.Index(pages, path)+1) * time.Minute)
		}
		if got, freed := tb.evict(t, 0, pages, used); len(got) != 0 || freed != 0 {
			t.Errorf("for nothing: %q, %d bytes", got, freed)
		}
		before := len(tb.bodyKeys(t))
		got, freed := tb.evict(t, 1<<40, pages, used)
		slices.Sort(got[:3]) // pages are forgotten concurrently
		if !slices.Equal(got, []string{"/0", "/1", "/2", "/old", "/pinned"}) || freed < 6*6<<10 {
			t.Errorf("forgotten: %q, %d bytes", got, freed)
		}
		left := tb.bodyKeys(t)
		if len(left) != 1 || !strings.HasPrefix(left[0], folderOf(store.HashedPartition(keyOf("/held")))) {
			t.Errorf("%d bodies before, left: %q", before, left)
		}
		for _, path := range pages {
			rec := tb.record(keyOf(path))
			if kept := path == "/held"; (rec.Entry != nil) != kept || (rec.Lock != nil) != kept {
				t.Errorf("%s: %+v", path, rec)
			}
			versions, err := p.Versions(t.Context(), keyOf(path))
			if err != nil || len(versions) > 1 || path != "/held" && len(versions) > 0 {
				t.Errorf("%s has the versions %+v, %v", path, versions, err)
			}
		}
		if err := p.store.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		b := tb.peer("b", isr.Route{Name: "site"}, site, nil)
		expect(t, get(b, "/0"), "/0 rendered 8", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// No more is evicted than required, and pages served from memory count as used.
func TestEvictLeastRecentlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site", Revalidate: time.Hour}, newSite(), nil)
		pages := []string{"/a", "/b", "/c", "/d"}
		for _, path := range pages {
			get(p, path)
			time.Sleep(time.Second)
		}
		get(p, "/b")
		uses := p.LastUses()
		if at, want := uses[store.HashedPartition(keyOf("/b"))], time.Now().Truncate(time.Second).Add(time.Second); !at.Equal(want) || len(uses) != 1 {
			t.Errorf("uses: %v, want /b at %v", uses, want)
		}
		for _, path := range pages {
			got, freed := tb.evict(t, 1, pages, func(path string) time.Time {
				return longAfter().Add(time.Duration(slices.Index(pages, path)) * time.Second)
			})
			if !slices.Equal(got, []string{path}) || freed < 6<<10 {
				t.Errorf("%q, %d bytes; want %s", got, freed, path)
			}
		}
	})
}
