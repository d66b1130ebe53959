package isr_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// tagged answers with a cacheable page and header lines such as "Cache-Tag: a".
func tagged(lines ...string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, n int64) {
		for _, line := range lines {
			if name, value, ok := strings.Cut(line, ": "); ok {
				w.Header().Add(name, value)
			}
		}
		cacheable(w, r, n)
	}
}

// storedTags returns the tags of the only stored page; false if there is none.
func (tb *table) storedTags(t *testing.T) (tags []string, stored bool) {
	t.Helper()
	for listed, err := range tb.store("reader").List(t.Context()) {
		if err != nil || stored {
			t.Fatalf("%v, %v", listed.Record.Entry, err)
		}
		if listed.Record.Entry != nil {
			tags, stored = listed.Record.Entry.Tags, true
		}
	}
	return tags, stored
}

func TestTagsOfTheRouteAndTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Surrogate-Key: shop b", `Cache-Groups: "a"`))
		rt := isr.Route{Query: []string{"id"}, Tags: func(r *http.Request) []string {
			if r.Header.Get("X-Visitor") != "" {
				t.Error("Tags got the request of a visitor")
			}
			return []string{"product-" + r.URL.Query().Get("id"), "b"}
		}}
		h := tb.node(tb.store("a"), nil).Handler(rt, site)
		expect(t, get(h, "/?id=7", "X-Visitor: me"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		if tags, _ := tb.storedTags(t); !slices.Equal(tags, []string{"a", "b", "product-7", "shop"}) {
			t.Errorf("tags %q", tags)
		}
	})
}

// A page is stored with all of its tags or not at all.
func TestTagsThatCannotBeKept(t *testing.T) {
	many := func(n int) string {
		tags := make([]string, n)
		for i := range tags {
			tags[i] = fmt.Sprint("t", i)
		}
		return strings.Join(tags, " ")
	}
	long := strings.Repeat("x", 1024)
	for name, c := range map[string]struct {
		header  string
		ofRoute []string
		log     string // empty: the page is stored
	}{
		"512 tags":                {header: "Surrogate-Key: " + many(512)},
		"513 tags":                {header: "Surrogate-Key: " + many(513), log: "has 513, at most 512 are allowed (max_tags)"},
		"one more of the route":   {header: "Surrogate-Key: " + many(512), ofRoute: []string{"more"}, log: "has 513, at most 512"},
		"the same of the route":   {header: "Surrogate-Key: " + many(512), ofRoute: []string{"t0", "t1"}},
		"the longest tag":         {header: "Cache-Tag: " + long},
		"too long":                {header: "Cache-Tag: " + long + "x", log: "1025 bytes, at most 1024"},
		"a control character":     {header: "Cache-Tag: a\x01", log: "control characters"},
		"not UTF-8":               {header: "Cache-Tag: a\xff", log: "control characters"},
		"empty, of the route":     {ofRoute: []string{""}, log: "must not be empty"},
		"too many bytes in all":   {ofRoute: longTags(65), log: "66560 bytes in all, at most 65536 are allowed (max_header)"},
		"as many bytes as fit":    {ofRoute: longTags(64)},
		"a header of 80 KB":       {header: "Surrogate-Key: " + strings.Join(longTags(80), " "), log: "81920 bytes in all, at most 65536"},
		"malformed Cache-Groups":  {header: "Cache-Groups: shop, news", log: "not a list of strings"},
		"unclosed quote in a tag": {header: `Cache-Tag: a"b,c`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(tagged(c.header))
				rt := isr.Route{}
				if c.ofRoute != nil {
					rt.Tags = func(*http.Request) []string { return c.ofRoute }
				}
				h := tb.node(tb.store("a"), nil).Handler(rt, site)
				a := get(h, "/")
				_, stored := tb.storedTags(t)
				if stored != (c.log == "") || strings.HasSuffix(a.status(), "; detail=tags") == stored {
					t.Errorf("stored: %v, status %q", stored, a.status())
				}
				if log := tb.log.String(); c.log != "" && !(strings.Contains(log, c.log) && strings.Contains(log, "example.com/")) {
					t.Errorf("the log does not name the page and %q:\n%s", c.log, log)
				}
			})
		})
	}
}

func longTags(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("%01024d", i)
	}
	return tags
}

// A page whose tags are corrected is stored once a response shows that; with tags of the
// route, once the refusal is forgotten.
func TestCorrectedTags(t *testing.T) {
	for name, ofRoute := range map[string]func(*http.Request) []string{
		"of the response": nil,
		"of the route":    func(*http.Request) []string { return []string{"r"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(tagged("Cache-Groups: wrong"))
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Tags: ofRoute}, site)
				get(h, "/")
				site.answers(tagged(`Cache-Groups: "right"`))
				get(h, "/") // passes through
				if ofRoute != nil {
					time.Sleep(2 * time.Minute)
				}
				if a := get(h, "/"); !strings.Contains(a.status(), "; stored") {
					t.Errorf("status %q", a.status())
				}
			})
		})
	}
}

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
