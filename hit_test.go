package isr_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr"
)

// A discard is a ResponseWriter without costs, so that a benchmark measures the handler.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// A hit in memory makes one small allocation, the text of its key, whatever the route
// declares.
func BenchmarkHit(b *testing.B) {
	site := newSite()
	site.delay = 0
	for name, route := range map[string]isr.Route{
		"plain":         {},
		"early refresh": {EarlyRefresh: 1},
	} {
		b.Run(name, func(b *testing.B) {
			tb := newTable(b)
			h := tb.node(tb.store("a"), nil).Handler(route, site)
			r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
			w := &discard{header: make(http.Header)}
			h.ServeHTTP(w, r)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
			if w.status != http.StatusOK {
				b.Fatalf("status %d", w.status)
			}
		})
	}
}

// A poll of the log, or the next second, also allocates: once for many hits.
func TestHitAllocatesOnce(t *testing.T) {
	tb, site := newTable(t), newSite()
	site.delay = 0
	h := tb.node(tb.store("a"), nil).Handler(isr.Route{
		EarlyRefresh: 1,
		KeyClasses:   []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}},
		Forward:      []string{"Traceparent"},
		SetHeader:    http.Header{"X-Frame-Options": {"DENY"}},
		RemoveHeader: []string{"X-Powered-By"},
		Downstream:   isr.DownstreamControl{CacheControl: "no-cache", CDN: "max-age=60"},
	}, site)
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
	r.Header.Set("Accept-Language", "de-AT, de;q=0.9, en;q=0.8")
	r.Header.Set("Traceparent", "00-1-1-01")
	w := &discard{header: make(http.Header)}
	h.ServeHTTP(w, r)
	if n := testing.AllocsPerRun(10_000, func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}); n > 1 {
		t.Errorf("a hit allocates %v times", n)
	}
}
