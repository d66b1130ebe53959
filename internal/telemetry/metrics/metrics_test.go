package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/metrics"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
)

func newMetrics(tb testing.TB) (*metrics.Metrics, *testbed.Log) {
	tb.Helper()
	log := new(testbed.Log)
	return metrics.New("v1", slog.New(slog.NewTextHandler(log, nil))), log
}

// gather returns all metrics by name.
func gather(tb testing.TB, m *metrics.Metrics) map[string]*dto.MetricFamily {
	tb.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		tb.Fatal(err)
	}
	all := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

// value returns the value of the series with labels, in order of their names: the value of a
// counter or gauge, or the count of a histogram. It is -1 without such a series.
func value(tb testing.TB, m *metrics.Metrics, name string, labels ...string) float64 {
	tb.Helper()
	f, ok := gather(tb, m)[name]
	if !ok {
		return -1
	}
	for _, metric := range f.GetMetric() {
		if strings.Join(labelsOf(metric), " ") != strings.Join(labels, " ") {
			continue
		}
		switch {
		case metric.Counter != nil:
			return metric.GetCounter().GetValue()
		case metric.Histogram != nil:
			return float64(metric.GetHistogram().GetSampleCount())
		}
		return metric.GetGauge().GetValue()
	}
	return -1
}

func labelsOf(metric *dto.Metric) (all []string) {
	for _, l := range metric.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return all
}

// series counts the series as Prometheus stores them, without native histograms: each bucket
// of a histogram is one.
func series(tb testing.TB, m *metrics.Metrics) (n int) {
	tb.Helper()
	for _, f := range gather(tb, m) {
		for _, metric := range f.GetMetric() {
			if h := metric.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 3
				continue
			}
			n++
		}
	}
	return n
}

func exchange(method, url string, status int, report isr.Report) *telemetry.Exchange {
	return &telemetry.Exchange{
		Report: report, Request: httptest.NewRequest(method, url, http.NoBody), Status: status,
		Duration: 3 * time.Millisecond, FirstByte: 70 * time.Microsecond, Bytes: 1000,
	}
}

func TestRequestsAreCountedByWhatTheCacheSays(t *testing.T) {
	m, _ := newMetrics(t)
	hit := isr.Report{Route: "/blog/{slug}", Hit: true}
	stale := isr.Report{Route: "/blog/{slug}", Hit: true, Detail: "stale", Age: 10 * time.Minute}
	miss := isr.Report{Route: "/blog/{slug}", Forward: "miss", Stored: true, Collapsed: true}
	for _, x := range []*telemetry.Exchange{
		exchange("GET", "/blog/a", 200, hit), exchange("GET", "/blog/b", 200, hit), exchange("HEAD", "/blog/b", 304, hit),
		exchange("GET", "/blog/c", 200, stale), exchange("GET", "/blog/c", 200, miss),
		exchange("GET", "/", 421, isr.Report{}),
	} {
		m.Done(x)
	}
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{3, "isr_requests_total", []string{"cache=hit", "reason=", "route=/blog/{slug}"}},
		{1, "isr_requests_total", []string{"cache=hit", "reason=stale", "route=/blog/{slug}"}},
		{1, "isr_requests_total", []string{"cache=miss", "reason=", "route=/blog/{slug}"}},
		{1, "isr_requests_total", []string{"cache=none", "reason=", "route=_other"}},
		{4, "http_server_request_duration_seconds", []string{"http_request_method=GET", "http_response_status_code=200", "http_route=/blog/{slug}"}},
		{1, "http_server_request_duration_seconds", []string{"http_request_method=HEAD", "http_response_status_code=304", "http_route=/blog/{slug}"}},
		{1, "http_server_request_duration_seconds", []string{"http_request_method=GET", "http_response_status_code=421", "http_route=_other"}},
		{4, "isr_hit_duration_seconds", nil},
		{1, "isr_stale_age_seconds", nil},
		{1, "isr_collapsed_requests_total", nil},
		{4000, "isr_response_bytes_total", []string{"cache=hit"}},
		{1000, "isr_response_bytes_total", []string{"cache=miss"}},
	} {
		if got := value(t, m, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v is %v, expected %v", want.name, want.labels, got, want.value)
		}
	}
}

// Hits take the time to the first byte, which no slow client can lengthen; and both
// histograms are native ones too.
func TestHistograms(t *testing.T) {
	m, _ := newMetrics(t)
	m.Done(exchange("GET", "/", 200, isr.Report{Route: "/", Hit: true}))
	for name, sum := range map[string]float64{"isr_hit_duration_seconds": .00007, "http_server_request_duration_seconds": .003} {
		h := gather(t, m)[name].GetMetric()[0].GetHistogram()
		if h.GetSampleSum() != sum || h.GetSchema() < 2 || len(h.GetPositiveSpan()) != 1 || len(h.GetBucket()) < 10 {
			t.Errorf("%s is %v", name, h)
		}
	}
}

// Requests that an attacker invents make no series: labels have values of the configuration
// and of closed sets only.
func TestAttackerMakesNoSeries(t *testing.T) {
	m, _ := newMetrics(t)
	random := rand.New(rand.NewPCG(1, 2))
	handler := telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "example.com" {
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		report := w.(isr.Reporter).Report()
		report.Route, report.Forward, report.Detail = "/", "bypass", "query"
		report.Key, report.Generation = store.Key{Text: r.Host + r.URL.Path}, r.URL.RawQuery
	}), m)
	word := func() string { return fmt.Sprintf("x%x", random.Uint64()) }
	ask := func(method, host string) {
		r := httptest.NewRequest(method, "http://"+host+"/"+word()+"?"+word()+"="+word(), http.NoBody)
		r.Header.Set(word(), word())
		r.Header.Set("User-Agent", word())
		r.Header.Set("X-Forwarded-Host", word())
		r.Header.Set("Traceparent", word())
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, host := range []string{"example.com", "example.org"} {
		ask(http.MethodGet, host)
		ask("PROPFIND", host)
	}
	before := series(t, m)
	for range 1000 {
		ask(http.MethodGet, word())
		ask(strings.ToUpper(word()), word())
		ask(http.MethodGet, "example.com")
		ask(strings.ToUpper(word()), "example.com")
	}
	if after := series(t, m); after != before {
		t.Errorf("%d series have become %d", before, after)
	}
	const labels = "http_request_method=_OTHER http_response_status_code=421 http_route=_other"
	if n := value(t, m, "http_server_request_duration_seconds", strings.Fields(labels)...); n != 1001 {
		t.Errorf("%v requests by unknown methods for hosts that are not served", n)
	}
}

// A configuration with many routes, an origin with all statuses, and a cache that says
// something new each time stay within the bound. Nothing is lost.
func TestSeriesAreBounded(t *testing.T) {
	m, _ := newMetrics(t)
	const n = 2000
	for i := range n {
		word := fmt.Sprint("r", i)
		m.Done(exchange("GET", "/", 100+i%500, isr.Report{Route: word, Forward: "miss", Detail: word}))
		_, end := m.Begin(t.Context(), isr.Operation{Kind: isr.OperationRender, Route: word, Trigger: "miss"})
		end(isr.Result{Outcome: word})
		_, end = m.Begin(t.Context(), isr.Operation{Kind: isr.OperationTable, Name: word})
		end(isr.Result{Outcome: "ok"})
		for _, kind := range []isr.EventKind{isr.EventLease, isr.EventNotStored, isr.EventEvicted, isr.EventPurge, isr.EventPoll} {
			m.Note(isr.Event{Kind: kind, Reason: word})
		}
		m.Origin(word, "GET", 100+i%500, nil, time.Second)
	}
	if got := series(t, m); got > 2500 {
		t.Errorf("there are %d series", got)
	}
	for _, name := range []string{"isr_requests_total", "isr_renders_total", "isr_not_stored_total"} {
		sum := 0.
		for _, metric := range gather(t, m)[name].GetMetric() {
			sum += metric.GetCounter().GetValue()
		}
		if sum != n {
			t.Errorf("%s is %v in all, expected %d", name, sum, n)
		}
	}
}

// Clients that provoke errors by many methods and statuses do not take the series of pages.
func TestOddRequestsLeavePagesAlone(t *testing.T) {
	m, _ := newMetrics(t)
	for i := range 600 {
		m.Done(exchange([]string{"GET", "POST", "HEAD", "PROPFIND"}[i%4], "/", 400+i/4, isr.Report{Route: "/"}))
	}
	for i := range 10 {
		m.Done(exchange("GET", "/", http.StatusOK, isr.Report{Route: fmt.Sprint("/", i), Hit: true}))
	}
	for i := range 10 {
		if n := value(t, m, "http_server_request_duration_seconds", "http_request_method=GET", "http_response_status_code=200", fmt.Sprint("http_route=/", i)); n != 1 {
			t.Errorf("%v requests of route /%d", n, i)
		}
	}
}

func TestOperations(t *testing.T) {
	m, _ := newMetrics(t)
	run := func(op isr.Operation, result isr.Result) {
		_, end := m.Begin(t.Context(), op)
		if got := value(t, m, "isr_renders_in_flight"); op.Kind == isr.OperationRender && got != 1 {
			t.Errorf("%v renders are in flight", got)
		}
		end(result)
	}
	run(isr.Operation{Kind: isr.OperationRender, Route: "/", Trigger: "stale"}, isr.Result{Outcome: "published"})
	run(isr.Operation{Kind: isr.OperationQueue, Route: "/"}, isr.Result{Outcome: "ok"})
	run(isr.Operation{Kind: isr.OperationLease, Route: "/"}, isr.Result{Outcome: "ok"})
	run(isr.Operation{Kind: isr.OperationTable, Name: "read"}, isr.Result{Outcome: "ok"})
	run(isr.Operation{Kind: isr.OperationBodies, Name: "put"}, isr.Result{Outcome: "error", Err: errors.New("disk")})
	m.Note(isr.Event{Kind: isr.EventApplied, Took: 200 * time.Millisecond})
	m.Note(isr.Event{Kind: isr.EventApplied})
	m.Note(isr.Event{Kind: isr.EventPurge, Reason: "hard", Target: "tag"})
	m.Note(isr.Event{Kind: isr.EventCollected, Bytes: 4096})
	m.Note(isr.Event{Kind: isr.EventLease, Reason: "taken-over"})
	m.Throttled(isr.OperationTable)
	m.Origin("site", "GET", 0, &net.OpError{Op: "dial", Err: errors.New("refused")}, time.Millisecond)
	m.Origin("site", "GET", 0, fmt.Errorf("render: %w", context.DeadlineExceeded), time.Second)
	m.Reloaded(errors.New("bad file"))
	m.EvictedFromDisk()
	for _, want := range []struct {
		value  float64
		name   string
		labels string
	}{
		{1, "isr_renders_total", "outcome=published route=/ trigger=stale"},
		{1, "isr_render_duration_seconds", "route=/"},
		{0, "isr_renders_in_flight", ""},
		{1, "isr_render_queue_seconds", ""},
		{1, "isr_lease_wait_seconds", ""},
		{1, "isr_store_operation_duration_seconds", "operation=read outcome=ok store=table"},
		{1, "isr_store_operation_duration_seconds", "operation=put outcome=error store=bodies"},
		{1, "isr_purge_propagation_seconds", ""},
		{1, "isr_purges_total", "kind=tag mode=hard"},
		{4096, "isr_gc_removed_bytes_total", ""},
		{1, "isr_leases_total", "result=taken-over"},
		{0, "isr_leases_total", "result=lost"},
		{1, "isr_store_throttles_total", "store=table"},
		{0, "isr_store_throttles_total", "store=bodies"},
		{1, "http_client_request_duration_seconds", "error_type=connect http_request_method=GET http_response_status_code= origin=site"},
		{1, "http_client_request_duration_seconds", "error_type=timeout http_request_method=GET http_response_status_code= origin=site"},
		{1, "isr_config_reloads_total", "result=error"},
		{0, "isr_config_last_reload_success_timestamp_seconds", ""},
		{1, "isr_disk_evictions_total", ""},
	} {
		if got := value(t, m, want.name, strings.Fields(want.labels)...); got != want.value {
			t.Errorf("%s{%s} is %v, expected %v", want.name, want.labels, got, want.value)
		}
	}
}
