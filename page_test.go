package isr

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

func testPage(change func(*store.Entry)) *page {
	body := []byte(strings.Repeat("<p>A page.</p>", 200))
	e := store.Entry{
		GeneratedAt: at(0), Revalidate: time.Minute, ETag: `"v1"`, Status: 200, Length: int64(len(body)),
		Header: http.Header{"Content-Type": {"text/html"}, "Last-Modified": {"Sat, 21 Nov 2026 10:00:00 GMT"}, "X-Kept": {"yes"}},
	}
	if change != nil {
		change(&e)
	}
	return newPage(store.Key{Text: "h/"}, e, store.PurgeState{}, reading{began: at(0), ended: at(0)}, body, newPresentation(viewRules{codings: coding.All()}))
}

// coded gives a page codings, which are not those of its body.
func coded(p *page, bodies map[httpcache.Coding]string) *page {
	var set coding.Set
	for c, body := range bodies {
		set[c] = []byte(body)
	}
	p.addCodings(coding.Has{}, set)
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
			r := request("http://h/", tt.header)
			r.Method = cmp.Or(tt.method, r.Method)
			p.serveHit(w, r, newPresentation(viewRules{codings: coding.All()}), at(10), store.Fresh, false)
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
		p.serveHit(w, request("http://h/", "If-Modified-Since: "+since.UTC().Format(http.TimeFormat)), new(presentation), at(10), store.Fresh, false)
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
		testPage(nil).serveHit(w, request("http://h/", "Range: bytes="+ranges), new(presentation), at(10), store.Fresh, false)
		if n := w.Body.Len(); n > 2800+32*256 {
			t.Errorf("%d bytes of ranges have an answer of %d, of a page of 2,800", len(ranges), n)
		}
	}
}

func TestPageHead(t *testing.T) {
	w := httptest.NewRecorder()
	r := request("http://h/", "")
	r.Method = http.MethodHead
	testPage(nil).serveHit(w, r, new(presentation), at(0), store.Fresh, false)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "2800" {
		t.Errorf("status %d, %d bytes, Content-Length %s", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

// testMemory is a memory that keeps readings from start or later.
func testMemory(t *testing.T, start time.Time) *memory {
	t.Helper()
	m, err := newMemory(1<<20, new(floor), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.floor.raise(start)
	return m
}

func TestMemoryPrefersNewerReadings(t *testing.T) {
	start := time.Now()
	saw := func(version int64, began, ended int) *page {
		at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
		return newPage(store.Key{Text: "h/"}, store.Entry{Version: version, Foreign: version == 0}, store.PurgeState{}, reading{began: at(began), ended: at(ended)}, nil, new(presentation))
	}
	const (
		older = iota
		newer
		unclear
	)
	tests := []struct {
		name     string
		old, new *page
		kept     int
	}{
		{"a later version, read later", saw(1, 0, 1), saw(2, 1, 2), newer},
		{"a later version, read earlier", saw(1, 1, 2), saw(2, 0, 1), older},
		{"an earlier version, read later: another service has replaced the row", saw(2, 0, 1), saw(1, 1, 2), newer},
		{"the same version, read later", saw(2, 0, 1), saw(2, 1, 2), newer},
		{"the same version, read earlier", saw(2, 1, 2), saw(2, 0, 1), older},
		{"the same version, overlapping reads", saw(2, 0, 2), saw(2, 1, 3), newer},
		{"another writer's, read later", saw(2, 0, 1), saw(0, 1, 2), newer},
		{"another writer's, read earlier", saw(2, 1, 2), saw(0, 0, 1), older},
		{"another version, overlapping reads", saw(1, 0, 2), saw(2, 1, 3), unclear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMemory(t, start)
			m.put(tt.old, new(flight))
			clear := m.put(tt.new, new(flight))
			if want := tt.kept != unclear; clear != want {
				t.Errorf("clear: %v, want %v", clear, want)
			}
			if got, want := m.get(tt.old.key), []*page{tt.old, tt.new, tt.old}[tt.kept]; got != want {
				t.Errorf("kept %p; the old one is %p, the new one %p", got, tt.old, tt.new)
			}
		})
	}
}

// A page that was read during a reload is not kept, and the order is unclear only if it may
// have been read after the reload.
func TestReadsDuringAReloadAreNotKept(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	k := store.Key{Text: "h/"}
	m := testMemory(t, start)
	f := new(flight)
	fs := flights{flying: map[store.Key][]*flight{k: {f}}}
	fs.overtake(k, at(2))
	for _, tt := range []struct {
		read  reading
		clear bool
	}{
		{reading{began: at(0), ended: at(1)}, true},
		{reading{began: at(1), ended: at(3)}, false},
	} {
		if clear := m.put(newPage(k, store.Entry{Version: 1}, store.PurgeState{}, tt.read, nil, new(presentation)), f); clear != tt.clear {
			t.Errorf("%v: clear: %v, want %v", tt.read, clear, tt.clear)
		}
		if m.get(k) != nil {
			t.Errorf("%v was kept", tt.read)
		}
	}
}

func at(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }
