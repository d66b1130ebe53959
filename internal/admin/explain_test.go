package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

func TestExplain(t *testing.T) {
	f := newFixture(t)
	if a := f.ask("POST", "/-/explain", `{"url":"http://example.com/"}`); a.status != 409 || a.code != "no_configuration" {
		t.Errorf("without a site: %d %s", a.status, a.text)
	}
	renders := 0
	h := f.node().Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		renders++
		page(w, "hello")
	})).(isr.Explainer)
	f.serve(admin.Config{Cache: f.cache, Explain: func(r *http.Request, fetch bool) (e admin.Explained, k store.Key, err error) {
		d := h.Explain(r, fetch)
		e.Add(d)
		return e, d.Key, nil
	}})
	e, err := f.client().Explain(t.Context(), admin.Explain{URL: "http://example.com/a?utm_source=x", Headers: "Host: example.com\nAccept: text/html", Fetch: true})
	if err != nil || e.Key != "example.com/a" || e.Verdict != "MISS" || e.Fetched == nil || !e.Fetched.Stored || e.Stored == nil || e.Stored.State != "missing" || e.Memory == nil || renders != 1 {
		t.Errorf("%+v, %v, rendered %d times", e, err, renders)
	}
	f.ask("POST", "/-/explain", `{"url":"http://example.com/a?other=1","fetch":true}`) // checked against the document
	if lines := f.auditLines(); len(lines) != 0 {
		t.Errorf("audit: %+v", lines)
	}
	for body, want := range map[string]string{
		"{}":                      `is not the URL of a page`,
		`{"url":"example.com/a"}`: "is not the URL of a page",
		`{"url":"http://a/","headers":"nonsense"}`:                             "has no value; expected NAME: VALUE",
		`{"url":"http://a/","headers":"` + strings.Repeat(`A:1\n`, 101) + `"}`: "at most 100 of 16384 bytes",
		`{"url":"http://a/","method":" "}`:                                     "invalid method",
	} {
		if a := f.ask("POST", "/-/explain", body); a.status != 400 || a.code != "invalid_request" || !strings.Contains(a.text, want) {
			t.Errorf("%.60s: %d %s", body, a.status, a.text)
		}
	}
}
