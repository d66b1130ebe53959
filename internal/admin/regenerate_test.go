package admin_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// refresh returns the keys that a refresh has regenerated, those that failed, its sum, and
// its error.
func (f *fixture) refresh(in admin.Refresh) (made, failed []string, sum *admin.RefreshedSum, err error) {
	f.t.Helper()
	for line, err := range f.client().Refresh(f.t.Context(), in) {
		switch {
		case err != nil:
			return made, failed, sum, err
		case line.Sum != nil:
			sum = line.Sum
		case line.Error != nil:
			failed = append(failed, line.Key+" "+line.Error.Code)
		default:
			made = append(made, line.Key)
		}
	}
	slices.Sort(made)
	return made, failed, sum, nil
}

// A refresh regenerates the pages that the targets cover, and tells all servers to drop their
// copies; nothing is purged.
func TestRefresh(t *testing.T) {
	f := newFixture(t)
	f.tagged("/a", "/b", "/c")
	if _, err := f.client().Pin(t.Context(), admin.Pin{Target: target("example.com/c")}); err != nil {
		t.Fatal(err)
	}
	before, err := f.store.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.render = func(w http.ResponseWriter, r *http.Request) { page(w, "new "+r.URL.Path) }
	if a := f.ask("POST", "/-/refresh", `{"targets":[{"url":"example.com/c"}]}`); !strings.Contains(a.text, "isr purge --refresh --unpin") {
		t.Errorf("a pinned page: %s", a.text)
	}
	made, failed, sum, err := f.refresh(admin.Refresh{Targets: []admin.PurgeTarget{{URL: "example.com/a"}, {Tag: "page-c"}}})
	if err != nil || !slices.Equal(made, []string{"example.com/a"}) || !slices.Equal(failed, []string{"example.com/c pinned"}) ||
		!reflect.DeepEqual(*sum, admin.RefreshedSum{Pages: 1, Failed: 1, Stored: 3}) {
		t.Errorf("%q, %q, %+v, %v", made, failed, sum, err)
	}
	_, changes, err := f.store.Changes(t.Context(), before.Seq)
	if err != nil || len(changes) != 1 || !slices.Equal(changes[0].Reload, []store.Key{{Text: "example.com/a"}}) || len(changes[0].Marks) > 0 {
		t.Errorf("changes: %+v, %v; want that all servers drop the page", changes, err)
	}
	if got := f.state("example.com/b"); got != "fresh" {
		t.Errorf("the other page is %s", got)
	}
	made, failed, _, err = f.refresh(admin.Refresh{Targets: []admin.PurgeTarget{{Tag: "page-c"}}, Unpin: true})
	if err != nil || !slices.Equal(made, []string{"example.com/c"}) || failed != nil {
		t.Errorf("unpinned: %q, %q, %v", made, failed, err)
	}
	if !strings.Contains(f.log.String(), `"action":"refreshPages","target":"example.com/a, tag page-c","result":"ok"`) {
		t.Errorf("no audit line: %s", f.log)
	}
	f.ask("POST", "/-/refresh", `{"targets":[{"all":true}]}`) // checked against the document
	if a := f.ask("POST", "/-/refresh", `{"targets":[]}`); a.status != 400 || !strings.Contains(a.text, "targets is empty") {
		t.Errorf("no targets: %d %s", a.status, a.text)
	}
	f.serve(admin.Config{})
	if a := f.ask("POST", "/-/refresh", `{"targets":[{"all":true}]}`); a.status != 409 || a.code != "no_renderer" {
		t.Errorf("without a server: %d %s", a.status, a.text)
	}
}

// A refresh of URLs reads their pages and variants, and no others.
func TestRefreshOfURLs(t *testing.T) {
	f := newFixture(t)
	f.cache = f.node()
	f.cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute, Vary: []string{"X-Lang"}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.render(w, r) }))
	f.serve(admin.Config{Cache: f.cache})
	for _, key := range []string{"example.com/a", "example.com/a#x-lang=de", "example.com/a#x-lang=en", "example.com/b"} {
		if _, err := f.client().Regenerate(t.Context(), regenerate(key)); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]struct{ made, stored string }{
		"example.com/a example.com/a#x-lang=de": {"example.com/a example.com/a#x-lang=de example.com/a#x-lang=en", "3"},
		"example.com/a#x-lang=en":               {"example.com/a#x-lang=en", "1"},
		"example.com/none":                      {"", "0"},
	} {
		var targets []admin.PurgeTarget
		for _, url := range strings.Fields(text) {
			targets = append(targets, admin.PurgeTarget{URL: url})
		}
		made, failed, sum, err := f.refresh(admin.Refresh{Targets: targets})
		if err != nil || strings.Join(made, " ") != want.made || len(failed) > 0 || fmt.Sprint(sum.Stored) != want.stored {
			t.Errorf("%s: %q, %q, %+v, %v", text, made, failed, sum, err)
		}
	}
}

// A refresh ends when the site does not answer, and does not try all pages.
func TestRefreshOfFailingSite(t *testing.T) {
	f := newFixture(t)
	var paths []string
	for i := range 15 {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	f.tagged(paths...)
	f.render = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }
	made, failed, sum, err := f.refresh(admin.Refresh{Targets: []admin.PurgeTarget{{All: true}}})
	if len(made) > 0 || len(failed) != 10 || sum != nil || err == nil || !strings.Contains(err.Error(), "10 pages in a row could not be regenerated") {
		t.Errorf("%q, %q, %+v, %v", made, failed, sum, err)
	}
}
