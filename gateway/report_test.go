package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/draft"
	"github.com/facetheory/isr/store"
)

// A reporter records a response and its report.
type reporter struct {
	*httptest.ResponseRecorder
	report isr.Report
}

func (r *reporter) Report() *isr.Report { return &r.report }

// TestReportNamesTheRoute: reports call a route by its label, or else by its pattern.
func TestReportNamesTheRoute(t *testing.T) {
	origin, cache := newEcho(t, "site"), newCache(t)
	s := newSite(t, cache, gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(t)},
		Routes: []gateway.SiteRoute{
			{Pattern: "/blog/{slug}", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"},
			{Pattern: "GET /labelled", Route: isr.Route{Label: "a label", Off: true}, Origin: "site"},
		},
	})
	for path, want := range map[string]isr.Report{
		"/blog/a":   {Route: "/blog/{slug}", Key: store.Key{Text: "example.com/blog/a"}, Forward: "miss", ForwardStatus: 200, Stored: true},
		"/labelled": {Route: "a label", Forward: "bypass", ForwardStatus: 200, Detail: "off"},
		"/other":    {},
	} {
		w := &reporter{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody))
		got := w.report
		got.Age, got.Generation, got.Render = 0, "", 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for text, want := range map[string]string{"example.com/blog/b": "/blog/{slug}", "example.com/other": ""} {
		if got := cache.RouteLabel(store.Key{Text: text}); got != want {
			t.Errorf("%s: route %q, want %q", text, got, want)
		}
	}
}

// TestReportOfDraftToken: the answer to a link with a token has the detail of its Cache-Status.
func TestReportOfDraftToken(t *testing.T) {
	const secret = "a secret of at least thirty-two bytes"
	h, _ := draftSite(t, secret)
	target := "http://example.com/?" + draft.Name + "=" + draftToken(t, secret, "example.com", "/", time.Hour)
	w := &reporter{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
	if w.Code != http.StatusSeeOther || w.report != (isr.Report{Detail: "draft"}) {
		t.Errorf("%d, %+v", w.Code, w.report)
	}
}
