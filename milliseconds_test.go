package isr_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// TestFreshnessOfOneSecond: max-age=1 lasts one second, not less and not more, whichever part of
// a second rendering began in, on the server that rendered the page and on others (RFC 9111,
// section 4.2).
func TestFreshnessOfOneSecond(t *testing.T) {
	for _, fraction := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
		t.Run(fraction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
					w.Header().Set("Cache-Control", "public, max-age=1")
					fmt.Fprint(w, n)
				})
				rt := isr.Route{Stale: -1}
				a, b := tb.node(tb.store("a"), nil).Handler(rt, site), tb.node(tb.store("b"), nil).Handler(rt, site)
				time.Sleep(fraction)
				expect(t, get(a, "/"), "1", "isr; fwd=miss; ")
				time.Sleep(998 * time.Millisecond)
				expect(t, get(a, "/"), "1", "isr; hit; ttl=0")
				expect(t, get(b, "/"), "1", "isr; hit; ttl=0")
				time.Sleep(2 * time.Millisecond)
				expect(t, get(b, "/"), "2", "isr; fwd=stale; ")
				expect(t, get(a, "/"), "2", "isr; ")
			})
		})
	}
}

// TestIfModifiedSinceOfAPageWithoutLastModified: dates have whole seconds, so that the date of a
// page that was generated in the middle of a second still matches (RFC 9111, section 4.3.2).
func TestIfModifiedSinceOfAPageWithoutLastModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		time.Sleep(700 * time.Millisecond)
		get(h, "/")
		date := time.Now().UTC().Format(http.TimeFormat)
		if a := get(h, "/", "If-Modified-Since: "+date); a.Code != http.StatusNotModified {
			t.Errorf("since %s: %d, want 304", date, a.Code)
		}
	})
}
