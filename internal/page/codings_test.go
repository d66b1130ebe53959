package page

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// TestCodingsByAcceptEncoding: RFC 9110, section 12.5.3, of a page that has br and gzip, and
// for which zstd would save nothing.
func TestCodingsByAcceptEncoding(t *testing.T) {
	const plain = 2800
	br, gz := map[httpcache.Coding]string{httpcache.Brotli: "in br"}, map[httpcache.Coding]string{httpcache.Gzip: "in gzip"}
	all := map[httpcache.Coding]string{httpcache.Brotli: "in br", httpcache.Gzip: "in gzip"}
	tests := []struct {
		header string
		has    map[httpcache.Coding]string
		route  []string
		coding string
	}{
		{"Accept-Encoding: gzip, deflate, br, zstd", all, nil, "br"},
		{"Accept-Encoding: gzip, deflate, br, zstd", gz, nil, "gzip"}, // during the loop
		{"Accept-Encoding: gzip, deflate, br, zstd", nil, nil, ""},
		{"Accept-Encoding: gzip", all, nil, "gzip"},
		{"Accept-Encoding: gzip", br, nil, ""},
		{"Accept-Encoding: zstd", all, nil, ""},
		{"Accept-Encoding: zstd, gzip;q=0.1", all, nil, "gzip"},
		{"Accept-Encoding: br;q=0.5, gzip", all, nil, "gzip"},
		{"Accept-Encoding: br;q=0.5, gzip;q=0.5", all, nil, "br"},
		{"Accept-Encoding: br;q=0, *", all, nil, "gzip"},
		{"Accept-Encoding: identity, br;q=0.9", all, nil, ""},
		{"Accept-Encoding: identity;q=0.5, gzip;q=0.5", all, nil, "gzip"},
		{"Accept-Encoding: identity;q=0, br", br, nil, "br"},
		{"Accept-Encoding: identity;q=0", all, nil, ""}, // nothing is acceptable: not 406
		{"Accept-Encoding: *;q=0", all, nil, ""},
		{"Accept-Encoding: ", all, nil, ""},
		{"", all, nil, ""},
		{"Accept-Encoding: br, gzip", all, []string{"gzip"}, "gzip"},
		{"Accept-Encoding: br, gzip", all, []string{"identity"}, ""},
	}
	for _, tt := range tests {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			p := coded(testPage(nil), tt.has)
			p.AddCodings(coding.Only(httpcache.Zstd), coding.Set{})
			w, r := httptest.NewRecorder(), askFor("http://h/", tt.header)
			r.Method = method
			p.ServeHit(w, r, NewView(ViewRules{Codings: tt.route}), at(10), store.Fresh, false)
			h, body, etag := w.Header(), "", `"v1"`
			if tt.coding != "" {
				body, etag = "in "+tt.coding, `"v1-`+tt.coding+`"`
			}
			if h.Get("Content-Encoding") != tt.coding || h.Get("Etag") != etag || h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s %q: %v, want the coding %q", method, tt.header, h, tt.coding)
			}
			switch got := w.Body.String(); {
			case method == http.MethodHead && got != "", method == http.MethodGet && tt.coding == "" && len(got) != plain, method == http.MethodGet && body != "" && got != body:
				t.Errorf("%s %q: %.20q", method, tt.header, got)
			}
		}
	}
}

// A 304 is for the tag of the coding that the client would get (RFC 9110, section 13.1.2).
func TestConditionsOfCodings(t *testing.T) {
	p := coded(testPage(nil), map[httpcache.Coding]string{httpcache.Brotli: "in br", httpcache.Gzip: "in gzip"})
	for header, status := range map[string]int{
		"Accept-Encoding: br\nIf-None-Match: \"v1-br\"":           304,
		"Accept-Encoding: br\nIf-None-Match: \"v1\", \"v1-gzip\"": 200,
		"Accept-Encoding: gzip\nIf-None-Match: \"v1-br\"":         200,
		"If-None-Match: \"v1-br\"":                                200,
	} {
		w := httptest.NewRecorder()
		p.ServeHit(w, askFor("http://h/", header), NewView(ViewRules{}), at(10), store.Fresh, false)
		if w.Code != status {
			t.Errorf("%q: %d, want %d", header, w.Code, status)
		}
		if w.Code == http.StatusNotModified && (w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Encoding") != "") {
			t.Errorf("%q: %v", header, w.Header())
		}
	}
}

// A page that gets new metadata keeps the codings of its body, under its own entity tag.
func TestInheritedCodings(t *testing.T) {
	old := coded(testPage(nil), map[httpcache.Coding]string{httpcache.Brotli: "in br"})
	old.AddCodings(coding.Only(httpcache.Zstd), coding.Set{})
	p := testPage(func(e *store.Entry) { e.ETag = `"v2"` })
	p.Inherit(old)
	have := p.coded.Load()
	if rep := have.made[httpcache.Brotli]; rep == nil || rep.etag != `"v2-br"` || string(rep.body) != "in br" || !have.none[httpcache.Zstd] {
		t.Errorf("inherited: %+v", have)
	}
	image := testPage(func(e *store.Entry) { e.Header = http.Header{"Content-Type": {"image/png"}} })
	if image.Inherit(old); image.coded.Load() != nil {
		t.Error("a page that can have no codings inherits them")
	}
}

func BenchmarkRepresent(b *testing.B) {
	p := coded(testPage(nil), map[httpcache.Coding]string{httpcache.Brotli: "in br", httpcache.Gzip: "in gzip"})
	as := NewView(ViewRules{})
	for _, field := range []string{"gzip, deflate, br, zstd", "gzip;q=1.0, br;q=0.9, *;q=0.1"} {
		b.Run(field, func(b *testing.B) {
			lines := []string{field}
			b.ReportAllocs()
			for b.Loop() {
				p.represent(as, lines)
			}
		})
	}
}
