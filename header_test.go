package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/facetheory/isr"
)

// fieldOf is the size of a field for MaxHeader, with a name of 8 bytes and a value of 8.
const fieldOf = 8 + 8 + 32

// headed answers with n such fields, and those that make a page storable.
func headed(n int) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, i int64) {
		for i := range n {
			w.Header().Set(fmt.Sprintf("X-%06d", i), "12345678")
		}
		w.Header().Set("Cache-Control", "s-maxage=60")
		fmt.Fprintf(w, "%s rendered %d", r.URL.Path, i)
	}
}

// A page with a large header is stored, up to MaxHeader. Beyond that, its requests pass through, and
// the log says why.
func TestMaxHeader(t *testing.T) {
	for name, c := range map[string]struct {
		max    int64
		fields int
		refuse bool
	}{
		"20 KB by default":     {0, 20_000 / fieldOf, false},
		"60 KB by default":     {0, 60_000 / fieldOf, false},
		"66 KB by default":     {0, 66_000 / fieldOf, true},
		"66 KB of 100 KiB":     {100 << 10, 66_000 / fieldOf, false},
		"1 KB of 1 KiB":        {1 << 10, 1_024 / fieldOf, true}, // with Cache-Control
		"half a KB of 1 KiB":   {1 << 10, 500 / fieldOf, false},
		"130 KB, which is max": {128 << 10, 130_000 / fieldOf, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(headed(c.fields))
				h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.MaxHeader = c.max }).Handler(isr.Route{}, site)
				first, second := get(h, "/"), get(h, "/")
				if c.refuse {
					if !strings.HasSuffix(first.status(), "; detail=header-too-large") || !strings.Contains(tb.log.String(), "(max_header)") || !strings.Contains(tb.log.String(), "example.com/") {
						t.Errorf("%s\n%s", first.status(), tb.log.String())
					}
					return
				}
				if !strings.HasPrefix(second.status(), "isr; hit") || second.Header().Get("X-000000") != "12345678" {
					t.Errorf("%s, then %s", first.status(), second.status())
				}
			})
		})
	}
}

// The row of a page with the largest header, the largest tags and a long key fits into a table, and
// so does that of a generation that is kept.
func TestLargestRowFits(t *testing.T) {
	const most, mostTags = 128 << 10, 2048
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(headed((most - 100) / fieldOf))
		tags := make([]string, mostTags)
		for i := range tags {
			tags[i] = fmt.Sprintf("%0*d", most/mostTags, i)
		}
		rt := isr.Route{Name: "site", History: 3, Tags: func(*http.Request) []string { return tags }}
		h := tb.peer("a", rt, site, func(cfg *isr.Config) { cfg.MaxHeader, cfg.MaxTags = most, mostTags })
		path := "/" + strings.Repeat("x", 3000)
		for range 2 {
			k := page
			k.Text = "example.com" + path
			if a := get(h, path); a.Code != http.StatusOK {
				t.Fatalf("%d, %s", a.Code, a.status())
			}
			if _, err := h.Regenerate(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		if a := get(h, path); !strings.HasPrefix(a.status(), "isr; hit") {
			t.Error(a.status())
		}
	})
}
