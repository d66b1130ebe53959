package isr_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// A 404 with the lifetime of a file, as during a rolling deploy, is kept by no browser for long, and
// by the cache only as long as other 404s. It does not matter how it is answered.
func TestMissingFileIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			w.Header().Set("Expires", time.Now().Add(365*24*time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("not found"))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, test := range []struct{ when, cookie string }{{"rendered", ""}, {"from memory", ""}, {"passed through", "Cookie: session=1"}} {
			var header []string
			if test.cookie != "" {
				header = append(header, test.cookie)
			}
			a := get(h, "/app.js", header...)
			if got := a.Header().Get("Cache-Control"); a.Code != http.StatusNotFound || got != "public, max-age=10" || a.Header().Get("Expires") != "" {
				t.Errorf("%s: %d with Cache-Control %q and Expires %q", test.when, a.Code, got, a.Header().Get("Expires"))
			}
		}
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write([]byte("a file"))
		})
		time.Sleep(11 * time.Second)
		if a := get(h, "/app.js"); a.Code != http.StatusOK || a.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("once the file is there: %d %v", a.Code, a.Header())
		}
	})
}
