package admin_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/admin"
)

// search returns the result of a search, once the index is complete.
func (f *fixture) search(query string) admin.FoundPages {
	f.t.Helper()
	var found admin.FoundPages
	eventually(f.t, "the index is complete", func() bool {
		a := f.ask("GET", "/-/pages/search?"+query, "")
		found = admin.FoundPages{}
		if err := json.Unmarshal([]byte(a.text), &found); err != nil || a.status != 200 {
			f.t.Fatalf("%d %s: %v", a.status, a.text, err)
		}
		return found.Complete && !found.Refreshing
	})
	return found
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not happen that %s", what)
		}
	}
}

func keys(found admin.FoundPages) string {
	var all []string
	for _, p := range found.Pages {
		all = append(all, strings.TrimPrefix(p.Key, "example.com"))
	}
	return strings.Join(all, " ")
}

func (f *fixture) make(paths ...string) {
	f.t.Helper()
	for _, path := range paths {
		if a := f.ask("POST", "/-/regenerate", fmt.Sprintf(`{"url":"http://example.com%s"}`, path)); a.status != 200 {
			f.t.Fatalf("%s: %d %s", path, a.status, a.text)
		}
	}
}

func TestSearch(t *testing.T) {
	f := newFixture(t)
	f.render = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Tag", "all, part"+r.URL.Path[1:2])
		page(w, strings.Repeat("x", len(r.URL.Path)))
	}
	f.make("/b", "/a", "/a/Long", "/c")
	f.ask("POST", "/-/regenerate", `{"url":"http://example.com/broken"}`)
	f.ask("POST", "/-/pin", `{"key":"example.com/c"}`)
	f.ask("POST", "/-/purge", `{"targets":[{"tag":"partb"}],"mode":"hard"}`)
	all := f.search("")
	if keys(all) != "/a /a/Long /b /broken /c" || all.Total != 5 || all.Matches != 5 || all.Routes["site"] != 4 || all.AsOf.IsZero() {
		t.Fatalf("all: %s %+v", keys(all), all)
	}
	want := map[string]int{"fresh": 3, "purged": 1, "missing": 1, "pinned": 1, "failing": 1}
	if fmt.Sprint(all.States) != fmt.Sprint(want) {
		t.Errorf("states: %v; want %v", all.States, want)
	}
	if p := all.Pages[4]; !p.Pinned || p.PinnedUntil.Year() != 9999 || p.Status != 200 || p.Bytes != 2 || p.Route != "site" || len(p.Tags) != 2 || p.GeneratedAt.IsZero() || p.FreshFor < 1 || !strings.HasPrefix(p.Partition, "CACHE#") {
		t.Errorf("a page: %+v", p)
	}
	for query, want := range map[string]string{
		"q=LONG":                     "/a/Long",
		"q=example.com/a":            "/a /a/Long",
		"q=nothing":                  "",
		"tag=parta":                  "/a /a/Long",
		"tag=part":                   "",
		"route=site":                 "/a /a/Long /b /c",
		"route=other":                "",
		"tenant=other":               "",
		"state=fresh":                "/a /a/Long /c",
		"state=purged":               "/b",
		"state=pinned":               "/c",
		"state=failing":              "/broken",
		"state=missing":              "/broken",
		"state=quarantined":          "",
		"sort=-key":                  "/c /broken /b /a/Long /a",
		"sort=-size&state=fresh":     "/a/Long /a /c",
		"sort=size&limit=2":          "/broken /a",
		"limit=2&offset=1":           "/a/Long /b",
		"offset=4":                   "/c",
		"offset=9":                   "",
		"sort=-requests&limit=1":     "/a",
		"sort=-render&q=nothing-yet": "",
	} {
		if got := f.search(query); keys(got) != want {
			t.Errorf("%s: %s; want %s", query, keys(got), want)
		}
	}
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "offset=-1", "sort=name", "state=new", "query=a"} {
		if a := f.ask("GET", "/-/pages/search?"+query, ""); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
}

// Renders of this server order pages.
func TestSearchByActivity(t *testing.T) {
	f := newFixture(t)
	f.make("/a", "/b", "/c")
	got := f.search("sort=-render").Pages
	slower := func(a, b admin.FoundPage) int { return cmp.Compare(b.RenderMS, a.RenderMS) }
	if len(got) != 3 || got[2].RenderMS <= 0 || !slices.IsSortedFunc(got, slower) {
		t.Errorf("%+v", got)
	}
}

// A search answers at once, with what is known, while the store does not.
func TestSearchOfStuckStore(t *testing.T) {
	f := newFixture(t)
	f.make("/a")
	f.search("")
	stuck := make(chan struct{})
	f.store.stuck.Store(&stuck)
	release := sync.OnceFunc(func() { close(stuck) })
	t.Cleanup(release)
	f.ask("POST", "/-/purge", `{"targets":[{"tag":"a"}]}`)
	eventually(t, "the index is read again", func() bool {
		return strings.Contains(f.ask("GET", "/-/pages/search", "").text, `"refreshing":true`)
	})
	began := time.Now()
	a := f.ask("GET", "/-/pages/search", "")
	if !strings.Contains(a.text, `"example.com/a"`) || !strings.Contains(a.text, `"refreshing":true`) {
		t.Errorf("after %s: %s", time.Since(began), a.text)
	}
	release()
	eventually(t, "the failure is told", func() bool {
		a := f.ask("GET", "/-/pages/search", "")
		return strings.Contains(a.text, errFault.Error()) && strings.Contains(a.text, `"example.com/a"`)
	})
}
