package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

func testPage(change func(*store.Entry)) *Page {
	body := []byte(strings.Repeat("<p>A page.</p>", 200))
	e := store.Entry{
		GeneratedAt: at(0), Revalidate: time.Minute, ETag: `"v1"`, Status: 200, Length: int64(len(body)),
		Header: http.Header{"Content-Type": {"text/html"}, "Last-Modified": {"Sat, 21 Nov 2026 10:00:00 GMT"}, "X-Kept": {"yes"}},
	}
	if change != nil {
		change(&e)
	}
	return New(store.Key{Text: "h/"}, e, store.PurgeState{}, Interval{Began: at(0), Ended: at(0)}, body, NewView(ViewRules{}))
}

// coded gives a page codings that do not belong to its body.
func coded(p *Page, bodies map[httpcache.Coding]string) *Page {
	var set coding.Set
	for c, body := range bodies {
		set[c] = []byte(body)
	}
	p.AddCodings(coding.Has{}, set)
	return p
}

func TestConditionalRequests(t *testing.T) {
	const lastModified = "Sat, 21 Nov 2026 10:00:00 GMT"
	tests := []struct {
		name   string
		method string // GET, if empty
		header string
		etag   string // of the entry, if another
		status int
	}{
		{name: "none", status: 200},
		{name: "the etag", header: `If-None-Match: "v1"`, status: 304},
		{name: "one of several, weak", header: `If-None-Match: "a,b", W/"v1"`, status: 304},
		{name: "the etag of the gzip coding", header: "If-None-Match: \"v1-gzip\"\nAccept-Encoding: gzip", status: 304},
		{name: "the etag of the gzip coding, for a client without it", header: `If-None-Match: "v1-gzip"`, status: 200},
		{name: "the etag of the plain body, for a client with gzip", header: "If-None-Match: \"v1\"\nAccept-Encoding: gzip", status: 200},
		{name: "star", header: "If-None-Match: *", status: 304},
		{name: "another etag", header: `If-None-Match: "v2"`, status: 200},
		{name: "a weak entry", header: `If-None-Match: W/"x"`, etag: `W/"x"`, status: 304},
		{name: "the date", header: "If-Modified-Since: " + lastModified, status: 304},
		{name: "an earlier date", header: "If-Modified-Since: Sat, 21 Nov 2026 09:59:59 GMT", status: 200},
		{name: "the date, another etag", header: "If-Modified-Since: " + lastModified + "\nIf-None-Match: \"v2\"", status: 200},
		{name: "a range", header: "Range: bytes=0-9", status: 206},
		{name: "a range of another version", header: "Range: bytes=0-9\nIf-Range: \"v2\"", status: 200},
		{name: "a range beyond the end", header: "Range: bytes=99999-", status: 416},
		{name: "nonsense", header: "Range: bytes=5,6-", status: 416},
		{name: "the last no bytes", header: "Range: bytes=-0", status: 200},
		{name: "ranges of another unit", header: "Range: lines=1-2", status: 200},
		{name: "a range of HEAD, which has none", method: http.MethodHead, header: "Range: bytes=0-9", status: 200},
		{name: "two ranges", header: "Range: bytes=0-9, 10-19,-5", status: 206},
		{name: "the same range twice", header: "Range: bytes=0-9,0-9", status: 200},
		{name: "overlapping ranges", header: "Range: bytes=100-199,0-100", status: 200},
		{name: "ranges that overlap by their ends", header: "Range: bytes=5-,-5", status: 200},
		{name: "as many ranges as there may be", header: "Range: bytes=" + everyOtherByte(32), status: 206},
		{name: "too many ranges", header: "Range: bytes=" + everyOtherByte(33), status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := coded(testPage(func(e *store.Entry) {
				if tt.etag != "" {
					e.ETag = tt.etag
				}
			}), map[httpcache.Coding]string{httpcache.Gzip: "gzip"})
			w := httptest.NewRecorder()
			r := askFor("http://h/", tt.header)
			r.Method = cmp.Or(tt.method, r.Method)
			p.ServeHit(w, r, NewView(ViewRules{}), at(10), store.Fresh, false)
			if w.Code != tt.status {
				t.Fatalf("status %d, want %d", w.Code, tt.status)
			}
			if tt.status == 304 && (w.Body.Len() > 0 || w.Header().Get("Etag") == "") {
				t.Errorf("a 304 with %d bytes and the header %v", w.Body.Len(), w.Header())
			}
			if got := w.Header().Get("Cache-Status"); got != "isr; hit; ttl=50" {
				t.Errorf("Cache-Status %q", got)
			}
			if got := w.Header().Get("Age"); got != "10" {
				t.Errorf("Age %q, want 10", got)
			}
		})
	}
}

// TestModifiedSinceGenerated: a page without Last-Modified was modified when it was generated
// (RFC 9111, section 4.3.2).
func TestModifiedSinceGenerated(t *testing.T) {
	p := testPage(func(e *store.Entry) { e.Header.Del("Last-Modified") })
	for since, want := range map[time.Time]int{at(0): http.StatusNotModified, at(5): http.StatusNotModified, at(-1): http.StatusOK} {
		w := httptest.NewRecorder()
		p.ServeHit(w, askFor("http://h/", "If-Modified-Since: "+since.UTC().Format(http.TimeFormat)), new(View), at(10), store.Fresh, false)
		if w.Code != want {
			t.Errorf("If-Modified-Since %v after it was generated: %d, want %d", since.Sub(at(0)), w.Code, want)
		}
	}
}

// everyOtherByte returns a Range field of n ranges of one byte each.
func everyOtherByte(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("%d-%d", 2*i, 2*i)
	}
	return strings.Join(parts, ",")
}

// The response to a Range field of 60 KB is hardly larger than the page.
func TestRangesDoNotAmplify(t *testing.T) {
	for _, ranges := range []string{strings.Repeat("0-0,", 15_000) + "0-0", everyOtherByte(1400), everyOtherByte(32)} {
		w := httptest.NewRecorder()
		testPage(nil).ServeHit(w, askFor("http://h/", "Range: bytes="+ranges), new(View), at(10), store.Fresh, false)
		if n := w.Body.Len(); n > 2800+32*256 {
			t.Errorf("%d bytes of ranges have an answer of %d, of a page of 2,800", len(ranges), n)
		}
	}
}

func TestPageHead(t *testing.T) {
	w := httptest.NewRecorder()
	r := askFor("http://h/", "")
	r.Method = http.MethodHead
	testPage(nil).ServeHit(w, r, new(View), at(0), store.Fresh, false)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "2800" {
		t.Errorf("status %d, %d bytes, Content-Length %s", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

func at(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }

// askFor returns a request with a header, whose fields are lines.
func askFor(target, header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

// The weight of a page counts the capacity of its slices, not their length.
func TestWeightCountsCapacity(t *testing.T) {
	body := make([]byte, 10_000, 30_000)
	p := New(store.Key{Text: "h/"}, store.Entry{Tags: []string{string(make([]byte, 5_000))}}, store.PurgeState{}, Interval{}, body, new(View))
	if w := int(p.Weight()); w < 30_000+5_000 || w > 30_000+5_000+4<<10 {
		t.Errorf("weight %d of a page that holds 30,000 bytes of body and 5,000 of tags", w)
	}
}
