package isr_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

func TestPathTags(t *testing.T) {
	for _, tt := range []struct{ pattern, path, template, want string }{
		{"GET /blog/{slug}", "/blog/hello", "post-{slug}", "post-hello"},
		{"/blog/{slug}", "/blog/Hello", "post-{slug}", "post-Hello"},
		{"/blog/{slug}", "/blog/caf%C3%A9", "post-{slug}", "post-café"},
		{"/blog/{slug}", "/blog/a%2Fb", "{slug}", "a/b"},
		{"/blog/{slug}", "/blog/%2541", "{slug}", "%41"}, // decoded once
		{"example.com/{lang}/{slug}/", "/de/x/y", "{lang}:{slug}", "de:x"},
		{"/docs/{path...}", "/docs/a/b", "doc {path}", "doc a/b"},
		{"/blog/{slug}", "/blog/x", "all-posts", "all-posts"},
	} {
		f, err := isr.PathTags(tt.pattern, tt.template)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodGet, tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f(r); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s of %s: %q, want %q", tt.template, tt.path, got, tt.want)
		}
	}
}

func TestPathTagsRefuses(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		templates []string
		want      string
	}{
		{"/blog/{slug}", []string{"post-{id}"}, "the pattern has no wildcard {id}; it has {slug}"},
		{"/blog/", []string{"{id}"}, "it has none"},
		{"/blog/{slug", []string{"a"}, "the pattern"},
		{"/blog/{slug}", nil, "1 to 32"},
		{"/blog/{slug}", make([]string, 33), "1 to 32"},
		{"/blog/{slug}", []string{""}, "empty"},
		{"/blog/{slug}", []string{"a{slug"}, "not closed"},
		{"/blog/{slug}", []string{"a}"}, "no '{' before"},
		{"/blog/{slug}", []string{"a\n"}, "control"},
		{"/blog/{slug}", []string{strings.Repeat("a", 257)}, "at most 256"},
	} {
		if _, err := isr.PathTags(tt.pattern, tt.templates...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %.20q: %v, want %q", tt.pattern, tt.templates, err, tt.want)
		}
	}
}

// A page is purged by the tag of its path, and one whose path makes no valid tag is not
// stored: a purge would miss it.
func TestPagesHaveTagsOfTheirPath(t *testing.T) {
	tags, err := isr.PathTags("/blog/{slug}", "post-{slug}")
	if err != nil {
		t.Fatal(err)
	}
	tb, s := newTable(t), newSite()
	s.delay = 0
	c := tb.node(tb.store("a"), nil)
	h := c.Handler(isr.Route{Tags: tags}, s)
	get(h, "/blog/hello")
	get(h, "/blog/other")
	if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "post-hello")}, Hard: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, get(h, "/blog/hello"), "/blog/hello rendered 3", "isr; fwd=")
	expect(t, get(h, "/blog/other"), "/blog/other rendered 2", "isr; hit")
	for _, path := range []string{"/blog/a%00b", "/blog/%ff", "/blog/" + strings.Repeat("x", 1025)} {
		if a := get(h, path); !strings.HasSuffix(a.status(), "detail=tags") {
			t.Errorf("%.20s: %q", path, a.status())
		}
	}
}
