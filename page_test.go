package isr

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func testPage(change func(*Entry)) *page {
	body := []byte(strings.Repeat("<p>A page.</p>", 200))
	e := Entry{
		GeneratedAt: at(0), Revalidate: time.Minute, ETag: `"v1"`, Status: 200, Length: int64(len(body)),
		Header: headerOf("Content-Type: text/html\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\nX-Kept: yes"),
	}
	if change != nil {
		change(&e)
	}
	return newPage(Key{Text: "h/"}, e, Cover{}, at(0), body)
}

func TestPageAnswersConditions(t *testing.T) {
	const lastModified = "Sat, 21 Nov 2026 10:00:00 GMT"
	tests := []struct {
		name   string
		header string
		etag   string // of the entry, if another
		status int
	}{
		{name: "none", status: 200},
		{name: "the etag", header: `If-None-Match: "v1"`, status: 304},
		{name: "one of several, weak", header: `If-None-Match: "a,b", W/"v1"`, status: 304},
		{name: "the etag of the gzip coding", header: `If-None-Match: "v1-gzip"`, status: 304},
		{name: "star", header: "If-None-Match: *", status: 304},
		{name: "another etag", header: `If-None-Match: "v2"`, status: 200},
		{name: "a weak entry", header: `If-None-Match: W/"x"`, etag: `W/"x"`, status: 304},
		{name: "the date", header: "If-Modified-Since: " + lastModified, status: 304},
		{name: "an earlier date", header: "If-Modified-Since: Sat, 21 Nov 2026 09:59:59 GMT", status: 200},
		{name: "the date, another etag", header: "If-Modified-Since: " + lastModified + "\nIf-None-Match: \"v2\"", status: 200},
		{name: "a range", header: "Range: bytes=0-9", status: 206},
		{name: "a range of another version", header: "Range: bytes=0-9\nIf-Range: \"v2\"", status: 200},
		{name: "a range beyond the end", header: "Range: bytes=99999-", status: 416},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPage(func(e *Entry) {
				if tt.etag != "" {
					e.ETag = tt.etag
				}
			})
			w := httptest.NewRecorder()
			p.serveHit(w, request("http://h/", tt.header), at(10), Fresh)
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

func TestPageCodings(t *testing.T) {
	p := testPage(nil)
	w := httptest.NewRecorder()
	p.serveHit(w, request("http://h/", "Accept-Encoding: br, gzip"), at(0), Fresh)
	h := w.Header()
	if h.Get("Content-Encoding") != "gzip" || h.Get("Etag") != `"v1-gzip"` || h.Get("Vary") != "Accept-Encoding" || h.Get("X-Kept") != "yes" {
		t.Fatalf("header %v", h)
	}
	zr, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil || !bytes.Equal(plain, p.body) {
		t.Errorf("%d bytes, %v; want the %d of the page", len(plain), err, len(p.body))
	}

	w = httptest.NewRecorder()
	p.serveHit(w, request("http://h/", "Accept-Encoding: br"), at(0), Fresh)
	if h := w.Header(); h.Get("Content-Encoding") != "" || h.Get("Etag") != `"v1"` || !bytes.Equal(w.Body.Bytes(), p.body) {
		t.Errorf("without gzip: header %v, %d bytes", h, w.Body.Len())
	}
}

func TestPageHead(t *testing.T) {
	w := httptest.NewRecorder()
	r := request("http://h/", "")
	r.Method = http.MethodHead
	testPage(nil).serveHit(w, r, at(0), Fresh)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "2800" {
		t.Errorf("status %d, %d bytes, Content-Length %s", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

// testMemory is a memory in which readings may be kept that began at start or later.
func testMemory(t *testing.T, start time.Time) *memory {
	t.Helper()
	m, err := newMemory(1<<20, new(reloads))
	if err != nil {
		t.Fatal(err)
	}
	m.reloads.everything(start)
	return m
}

func TestMemoryPrefersNewerReadings(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	reading := func(version int64, readAt time.Time) *page {
		return newPage(Key{Text: "h/"}, Entry{Version: version, Foreign: version == 0}, Cover{}, readAt, nil)
	}
	tests := []struct {
		name     string
		old, new *page
		replaces bool
	}{
		{"a later version, read later", reading(1, at(0)), reading(2, at(1)), true},
		{"an earlier version, read later", reading(2, at(0)), reading(1, at(1)), false},
		{"the same version, read later", reading(2, at(0)), reading(2, at(1)), true},
		{"the same version, read earlier", reading(2, at(1)), reading(2, at(0)), false},
		{"another writer's, read later", reading(2, at(0)), reading(0, at(1)), true},
		{"another writer's, read earlier", reading(2, at(1)), reading(0, at(0)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMemory(t, start)
			m.put(tt.old)
			m.put(tt.new)
			if got := m.get(tt.old.key) == tt.new; got != tt.replaces {
				t.Errorf("replaced: %v, want %v", got, tt.replaces)
			}
		})
	}
}
