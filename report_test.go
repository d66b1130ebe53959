package isr_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A reporter records a response and its report.
type reporter struct {
	*httptest.ResponseRecorder
	report isr.Report
	asked  bool
}

func (r *reporter) Report() *isr.Report {
	r.asked = true
	return &r.report
}

// A wrapper hides a reporter, as middleware does.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newRequest(path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func newDiscard() *discard { return &discard{header: make(http.Header)} }

// reported makes a request. It panics if the report of any request of these tests differs from
// its Cache-Status.
func reported(h http.Handler, r *http.Request) (answer, isr.Report) {
	w := &reporter{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	h.ServeHTTP(w, r)
	_, direct := h.(isr.DraftHandler)
	behind := !w.asked && !direct // another reporter, of telemetry
	if err := sameStatus(w.report, w.Header()["Cache-Status"]); err != nil && !behind {
		panic(fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
	}
	return answer{w.ResponseRecorder, time.Since(began)}, w.report
}

// sameStatus returns an error unless a report says what the last member of Cache-Status does.
func sameStatus(report isr.Report, lines []string) error {
	if len(lines) == 0 {
		if report.Detail == "canceled" || !report.Hit && report.Forward == "" && report.Detail == "" {
			return nil
		}
		return fmt.Errorf("the report %+v of a response without Cache-Status", report)
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return fmt.Errorf("the Cache-Status %q: %w", lines, err)
	}
	item, ok := list[len(list)-1].(httpsfv.Item)
	if !ok || item.Value != httpsfv.Token("isr") {
		return nil // not of this cache
	}
	said := isr.Report{}
	for _, name := range item.Params.Names() {
		v, _ := item.Params.Get(name)
		switch name {
		case "hit":
			said.Hit = v.(bool)
		case "fwd":
			said.Forward = string(v.(httpsfv.Token))
		case "fwd-status":
			said.ForwardStatus = int(v.(int64))
		case "stored":
			said.Stored = v.(bool)
		case "collapsed":
			said.Collapsed = v.(bool)
		case "detail":
			said.Detail = string(v.(httpsfv.Token))
		}
	}
	got := isr.Report{
		Hit: report.Hit, Forward: report.Forward, ForwardStatus: report.ForwardStatus,
		Stored: report.Stored, Collapsed: report.Collapsed, Detail: report.Detail,
	}
	if got != said {
		return fmt.Errorf("the report says %+v, and Cache-Status %q", got, lines)
	}
	return nil
}

// TestReport: what a report says besides Cache-Status, which reported compares for the requests
// of all tests.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/private"):
				w.Header().Set("Set-Cookie", "session=1")
			case strings.HasPrefix(r.URL.Path, "/error"):
				w.WriteHeader(http.StatusInternalServerError)
			case strings.HasPrefix(r.URL.Path, "/upstream"):
				w.Header().Set("Cache-Status", "inner; hit")
			}
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "pages", Query: []string{"q"}, Vary: []string{"Accept-Language"}, ObeyRequests: true}, site)
		post := newRequest("/posted")
		post.Method = http.MethodPost
		badHost := newRequest("/")
		badHost.Host = "a b"
		page := func(text string) store.Key { return store.Key{Text: "example.com" + text} }
		for _, step := range []struct {
			r       *http.Request
			want    string // of Cache-Status, without ttl
			key     store.Key
			age     time.Duration
			page    bool // it has a generation
			renders bool // it waited for a render
		}{
			{newRequest("/"), "fwd=miss fwd-status=200 stored", page("/"), time.Second, true, true},
			{newRequest("/"), "hit", page("/"), time.Second, true, false},
			{newRequest("/", "Accept-Language: de"), "fwd=miss fwd-status=200 stored", page("/#accept-language=de"), time.Second, true, true},
			{newRequest("/?q=1"), "fwd=miss fwd-status=200 stored", page("/?q=1"), time.Second, true, true},
			{newRequest("/?other=1"), "fwd=bypass fwd-status=200 detail=query", store.Key{}, 0, false, false},
			{newRequest("/", "Cookie: session=1"), "fwd=bypass fwd-status=200 detail=cookie", store.Key{}, 0, false, false},
			{post, "fwd=method fwd-status=200", store.Key{}, 0, false, false},
			{badHost, "detail=bad-request", store.Key{}, 0, false, false},
			{newRequest("/", "Cache-Control: no-cache"), "fwd=request fwd-status=200", page("/"), 0, false, false},
			{newRequest("/absent", "Cache-Control: only-if-cached"), "detail=only-if-cached", page("/absent"), 0, false, false},
			{newRequest("/", "Isr-Min-Seq: x"), "detail=bad-request", page("/"), 0, false, false},
			{newRequest("/private"), "fwd=miss fwd-status=200 detail=set-cookie", page("/private"), 0, false, true},
			{newRequest("/private"), "fwd=bypass fwd-status=200 detail=set-cookie", page("/private"), 0, false, false},
			{newRequest("/error"), "fwd=miss fwd-status=500 detail=render-failed", page("/error"), 0, false, true},
			{newRequest("/error"), "fwd=miss fwd-status=500 detail=back-off", page("/error"), 0, false, false},
			{newRequest("/upstream"), "fwd=miss fwd-status=200 stored", page("/upstream"), time.Second, true, true},
		} {
			got, report := reported(h, step.r)
			what := fmt.Sprintf("%s %s: %q, %+v", step.r.Method, step.r.URL, got.status(), report)
			if text := statusText(report); text != step.want {
				t.Errorf("%s: status %q, want %q", what, text, step.want)
			}
			if report.Route != "pages" || report.Key != step.key || (report.Generation != "") != step.page || report.Age != step.age {
				t.Errorf("%s: want key %v, a generation: %v, age %v", what, step.key, step.page, step.age)
			}
			wait := time.Duration(0)
			if step.renders {
				wait = site.delay
			}
			if report.Render != wait || report.LeaseWait != 0 {
				t.Errorf("%s: want a render of %v", what, wait)
			}
		}
	})
}

// statusText has the parameters of Cache-Status by a report.
func statusText(r isr.Report) string {
	var parts []string
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	add(r.Hit, "hit")
	add(r.Forward != "", "fwd="+r.Forward)
	add(r.ForwardStatus > 0, fmt.Sprint("fwd-status=", r.ForwardStatus))
	add(r.Stored, "stored")
	add(r.Collapsed, "collapsed")
	add(r.Detail != "", "detail="+r.Detail)
	return strings.Join(parts, " ")
}

// TestReportThroughMiddleware: a report is found behind writers that unwrap, and a draft has one.
func TestReportThroughMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Label: "/"}, site)
		for _, want := range []string{"fwd=miss fwd-status=200 stored", "hit"} {
			w := &reporter{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(wrapper{wrapper{w}}, newRequest("/"))
			if text := statusText(w.report); text != want || w.report.Route != "/" || w.report.Key != keyOf("/") {
				t.Errorf("the report %+v, want %q", w.report, want)
			}
		}
		_, report := reported(http.HandlerFunc(h.(isr.DraftHandler).ServeDraft), newRequest("/"))
		if text := statusText(report); text != "fwd=bypass fwd-status=200 detail=draft" || report.Route != "/" || report.Key != keyOf("/") {
			t.Errorf("the report of a draft: %+v", report)
		}
	})
}

// TestReportOfImpatientVisitor: a visitor who goes away before the answer.
func TestReportOfImpatientVisitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, path := range []string{"/", "/?bypass=1"} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, report := reported(h, newRequest(path).WithContext(ctx))
			cancel()
			if want := map[string]string{"/": "fwd=miss detail=canceled", "/?bypass=1": "fwd=bypass fwd-status=200 detail=query"}[path]; statusText(report) != want {
				t.Errorf("%s: the report %+v, want %q", path, report, want)
			}
		}
	})
}

// TestReportOfStream: the visitors of a page that is streamed while it is rendered.
func TestReportOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			cacheable(w, r, n)
			time.Sleep(time.Second)
			fmt.Fprint(w, " at last")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		var visitors sync.WaitGroup
		var reports [2]isr.Report
		for i := range reports {
			visitors.Go(func() { _, reports[i] = reported(h, newRequest("/")) })
			synctest.Wait()
		}
		visitors.Wait()
		for i, want := range []string{"fwd=miss fwd-status=200 stored", "fwd=miss fwd-status=200 stored collapsed"} {
			if r := reports[i]; statusText(r) != want || r.Render != 2*time.Second || r.Age != time.Second {
				t.Errorf("visitor %d: %+v, want %q", i, r, want)
			}
		}
	})
}
