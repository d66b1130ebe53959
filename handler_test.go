package isr_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/facetheory/isr"
)

// A discard is a ResponseWriter without costs, so that a benchmark measures the handler.
type discard struct {
	header http.Header
	status int
}

// A reportingDiscard takes reports, too.
type reportingDiscard struct {
	discard
	report isr.Report
}

func (d *reportingDiscard) Report() *isr.Report { return &d.report }

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
		"coded":         {},
	} {
		b.Run(name, func(b *testing.B) {
			tb := newTable(b)
			h := tb.node(tb.store("a"), nil).Handler(route, site)
			r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
			w := &discard{header: make(http.Header)}
			if name == "coded" {
				site.answers(longPage)
				r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
				for w.header["Content-Encoding"] == nil {
					h.ServeHTTP(w, r)
				}
			}
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

// Time stands still in the bubble. A poll of the log, or the next second, would also allocate. A store
// that takes longer than Config.StoreTimeout, beside much other work, would leave the page unpublished, whose
// hits allocate more.
func TestHitAllocatesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{
			EarlyRefresh: 1,
			KeyClasses:   []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}},
			Forward:      []string{"Traceparent"},
			SetHeader:    http.Header{"X-Frame-Options": {"DENY"}},
			RemoveHeader: []string{"X-Powered-By"},
			Downstream:   isr.DownstreamControl{CacheControl: "no-cache", CDN: "max-age=remaining", Surrogate: "max-age=60"},
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
	})
}

// So does one with an observer, and a report.
func TestObservedHitAllocatesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, seen := newTable(t), newSite(), new(notebook)
		h := tb.node(tb.store("a"), func(cfg *isr.Config) { seen.observe(cfg); cfg.Poll = -1 }).Handler(isr.Route{Name: "pages"}, site)
		r := newRequest("/")
		w := &reportingDiscard{discard: *newDiscard()}
		h.ServeHTTP(w, r)
		if n := testing.AllocsPerRun(10_000, func() {
			clear(w.header)
			w.report = isr.Report{}
			h.ServeHTTP(w, r)
		}); n > 1 {
			t.Errorf("a hit allocates %v times", n)
		}
		if !w.report.Hit || w.report.Detail != "" || w.report.Route != "pages" || w.report.Key != keyOf("/") || w.report.Generation == "" {
			t.Errorf("the report of a hit: %+v", w.report)
		}
	})
}

// So does one whose coding is chosen, also by a field that is not a common one.
func TestCodedHitAllocatesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, newLongSite())
		for _, field := range []string{"gzip, deflate, br, zstd", "GZIP;q=0.3, br ; q=0.9, *;q=0.1", "zstd;q=0.1"} {
			r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
			r.Header.Set("Accept-Encoding", field)
			w := &discard{header: make(http.Header)}
			h.ServeHTTP(w, r)
			settle()
			h.ServeHTTP(w, r)
			if w.header["Content-Encoding"] == nil {
				t.Errorf("%s: %v", field, w.header)
			}
			if n := testing.AllocsPerRun(10_000, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}); n > 1 {
				t.Errorf("%s: a hit allocates %v times", field, n)
			}
		}
	})
}
