package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr/gateway"
)

// The tags of a path are those that Next.js 16.4 names when it revalidates the path, one of its
// layouts, or another public form of it.
func TestNextTags(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/", "_N_T_:deployment _N_T_/layout _N_T_/page _N_T_/ _N_T_/index"},
		{"/blog/rye", "_N_T_:deployment _N_T_/layout _N_T_/blog/layout _N_T_/blog/rye/layout _N_T_/blog/rye/page _N_T_/blog/rye"},
		{"/blog/rye/", "_N_T_:deployment _N_T_/layout _N_T_/blog/layout _N_T_/blog/rye/layout _N_T_/blog/rye/page _N_T_/blog/rye"},
		{"/_next/data/BUILD/blog.json", "_N_T_:deployment _N_T_/layout _N_T_/blog/layout _N_T_/blog/page _N_T_/blog"},
		{"/_next/data/BUILD/index.json", "_N_T_:deployment _N_T_/layout _N_T_/page _N_T_/ _N_T_/index"},
		{"/shop/_next/data/BUILD/en.json", "_N_T_:deployment _N_T_/layout _N_T_/shop/layout _N_T_/shop/en/layout _N_T_/shop/en/page _N_T_/shop/en"},
		{"/a%20b", "_N_T_:deployment _N_T_/layout _N_T_/a%20b/layout _N_T_/a%20b/page _N_T_/a%20b _N_T_/a b/layout _N_T_/a b/page _N_T_/a b"},
		{"/%0A", "_N_T_:deployment _N_T_/layout _N_T_/%0A/layout _N_T_/%0A/page _N_T_/%0A"},
		{"/_next/static/chunks/1.js", ""},
	} {
		u, err := url.Parse("http://a" + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		got := gateway.NextTags(&http.Request{URL: u})
		if strings.Join(unique(got), " ") != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.path, strings.Join(unique(got), " "), tt.want)
		}
	}
	if got := gateway.NextTags(httptest.NewRequest(http.MethodGet, "/"+strings.Repeat("a/", 500), http.NoBody)); len(got) > 20 {
		t.Errorf("a deep path has %d tags", len(got))
	}
}

// What Next.js took from its own cache although it was stale there has a window of a second.
func TestStaleResponsesOfNextAreNotFreshForLong(t *testing.T) {
	const year = "s-maxage=31536000, stale-while-revalidate=60"
	for _, tt := range []struct{ state, control, own, want string }{
		{"STALE", year, "", "max-age=1, stale-while-revalidate=60"},
		{"STALE", "s-maxage=60", "max-age=3600", "max-age=1"},
		{"STALE", "public, max-age=60", "", "max-age=1"},
		{"STALE", "private, no-cache, no-store, max-age=0, must-revalidate", "", ""},
		{"STALE", "s-maxage=60", "no-store", "no-store"},
		{"STALE", "", "", ""},
		{"HIT", year, "", ""},
		{"", year, "", ""},
	} {
		h, _ := proxy(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"X-Nextjs-Cache": tt.state, "Cache-Control": tt.control, "CDN-Cache-Control": tt.own} {
				if value != "" {
					w.Header().Set(name, value)
				}
			}
		})
		got := ask(h, "http://site.example/", nil).Header()
		if got.Get("CDN-Cache-Control") != tt.want || got.Get("Cache-Control") != tt.control {
			t.Errorf("%+v: %q, %q", tt, got.Get("Cache-Control"), got.Get("CDN-Cache-Control"))
		}
	}
}

func unique(tags []string) []string {
	var all []string
	for _, tag := range tags {
		if !slices.Contains(all, tag) {
			all = append(all, tag)
		}
	}
	return all
}
