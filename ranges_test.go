package isr_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/facetheory/isr"
)

// Ranges and preconditions of requests for a stored page: RFC 9110, sections 13.1.1, 13.1.4,
// 13.1.5 and 14.2; RFC 9111, section 4.3.2.
func TestRangesAndPreconditions(t *testing.T) {
	const modified, later, earlier = "Sat, 01 Jan 2000 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:01 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		body := strings.Repeat("0123456789", 200)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Last-Modified", modified)
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "s-maxage=60")
			_, _ = w.Write([]byte(body))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		get(h, "/", "Accept-Encoding: gzip") // has the coding made
		synctest.Wait()
		for name, c := range map[string]struct {
			method string
			fields []string
			status int
			coded  bool
			length string
		}{
			"14.2: a range":                        {"GET", []string{"Range: bytes=10-19"}, 206, false, "10"},
			"14.2: a range, not of a coding":       {"GET", []string{"Range: bytes=10-19", "Accept-Encoding: gzip"}, 206, false, "10"},
			"14.2: HEAD has no ranges":             {"HEAD", []string{"Range: bytes=10-19"}, 200, false, "2000"},
			"14.2: HEAD, with the coding of a GET": {"HEAD", []string{"Range: bytes=10-19", "Accept-Encoding: gzip"}, 200, true, ""},
			"14.2: an unknown unit":                {"GET", []string{"Range: lines=1-2"}, 200, false, "2000"},
			"14.2: an unknown unit, coded":         {"GET", []string{"Range: lines=1-2", "Accept-Encoding: gzip"}, 200, true, ""},
			"14.1.2: beyond the end":               {"GET", []string{"Range: bytes=2000-"}, 416, false, ""},
			"13.1.1: If-Match is ignored":          {"GET", []string{`If-Match: "v0"`}, 200, false, "2000"},
			"13.1.1: also with a range":            {"GET", []string{`If-Match: "v0"`, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.4: If-Unmodified-Since, too":     {"GET", []string{"If-Unmodified-Since: " + earlier, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: If-Range with the tag":        {"GET", []string{`If-Range: "v1"`, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: another tag":                  {"GET", []string{`If-Range: "v0"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: the tag of a coding":          {"GET", []string{`If-Range: "v1-gzip"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: a weak tag":                   {"GET", []string{`If-Range: W/"v1"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: the date":                     {"GET", []string{"If-Range: " + modified, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: another date":                 {"GET", []string{"If-Range: " + later, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.2.2: If-None-Match before Range":   {"GET", []string{`If-None-Match: "v1"`, "Range: bytes=10-19"}, 304, false, ""},
		} {
			r := request(c.fields...)
			r.Method = c.method
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Header()
			if w.Code != c.status || (got.Get("Content-Encoding") != "") != c.coded || c.length != "" && got.Get("Content-Length") != c.length {
				t.Errorf("%s: %d %v, want %d, coded: %v, length %s", name, w.Code, got, c.status, c.coded, c.length)
			}
		}
	})
}
