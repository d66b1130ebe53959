package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// scrape returns the response to a scrape that accepts a format.
func scrape(tb testing.TB, m *metrics.Metrics, accept string) (contentType, body string) {
	tb.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Mux().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Header().Get("Content-Type"), w.Body.String()
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

func TestFormats(t *testing.T) {
	m, log := newMetrics(t)
	m.Done(exchange("GET", "/", 200, isr.Report{Route: "/", Hit: true}))
	for accept, want := range map[string][]string{
		"text/plain": {"text/plain; version=0.0.4", `isr_requests_total{cache="hit",reason="",route="/"} 1`, `isr_build_info{goversion="go1.`, "go_goroutines", "process_cpu_seconds_total"},
		openMetrics:  {"application/openmetrics-text", "# TYPE isr_requests counter", "# EOF"},
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited": {"application/vnd.google.protobuf", "isr_hit_duration_seconds"},
	} {
		contentType, body := scrape(t, m, accept)
		if !strings.HasPrefix(contentType, want[0]) {
			t.Errorf("%s: Content-Type is %s", accept, contentType)
		}
		for _, text := range want[1:] {
			if !strings.Contains(body, text) {
				t.Errorf("%s: %q is missing", accept, text)
			}
		}
	}
	if log.String() != "" {
		t.Errorf("logged %s", log)
	}
}

func TestOnlyMetricsAreServed(t *testing.T) {
	m, _ := newMetrics(t)
	for request, want := range map[string]int{"GET /metrics": 200, "HEAD /metrics": 200, "POST /metrics": 404, "GET /": 404, "GET /debug/pprof/": 404} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		m.Mux().ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d, expected %d", request, w.Code, want)
		}
	}
}

// Renders of sampled traces have exemplars; other renders and hits have none.
func TestExemplars(t *testing.T) {
	m, _ := newMetrics(t)
	traced := func(flags trace.TraceFlags, id byte) {
		ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: flags}))
		_, end := m.Begin(ctx, isr.Operation{Kind: isr.OperationRender, Route: "/", Trigger: "miss"})
		end(isr.Result{Outcome: "published"})
	}
	traced(0, 2)
	x := exchange("GET", "/", 200, isr.Report{Route: "/", Hit: true})
	x.TraceID = "03000000000000000000000000000000"
	m.Done(x)
	if _, body := scrape(t, m, openMetrics); strings.Contains(body, "trace_id") {
		t.Errorf("there is an exemplar of a trace that is not sampled, or of a hit:\n%s", body)
	}
	traced(trace.FlagsSampled, 1)
	_, body := scrape(t, m, openMetrics)
	if n := strings.Count(body, "trace_id"); n != 1 || !strings.Contains(body, `# {trace_id="01000000000000000000000000000000"}`) {
		t.Errorf("%d exemplars:\n%s", n, body)
	}
}

// Concurrent scrapes are bounded: the sources below do not answer.
func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(t)
		release := make(chan struct{})
		m.Sample(metrics.Sources{Origins: func() []metrics.Origin {
			<-release
			return nil
		}})
		handler := m.Handler() // one, so that it counts
		busy := make(chan int, 20)
		for range cap(busy) {
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
				_, _ = io.Copy(io.Discard, w.Body)
				busy <- w.Code
			}()
		}
		refused := 0
		for range cap(busy) {
			if <-busy == http.StatusServiceUnavailable {
				refused++
			}
		}
		if refused != cap(busy)-4 {
			t.Errorf("%d of %d scrapes are refused", refused, cap(busy))
		}
		close(release)
	})
}

// Sources are asked at most once a second, however many scrape; a source that hangs delays a
// scrape by at most two seconds, and the last values stay.
func TestSourcesAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(t)
		asked, hang := 0, make(chan struct{})
		m.Sample(metrics.Sources{Disk: func() (int64, int64) {
			if asked++; asked == 3 {
				<-hang
			}
			return int64(asked), 100
		}})
		for i, want := range []struct {
			wait, took time.Duration
			value      float64
		}{
			{0, 0, 1},
			{999 * time.Millisecond, 0, 1},
			{time.Millisecond, 0, 2},
			{time.Second, 2 * time.Second, 2}, // hangs
			{0, 2 * time.Second, 2},           // and is not asked again
		} {
			time.Sleep(want.wait)
			began := time.Now()
			if got := value(t, m, "isr_disk_bytes"); got != want.value || time.Since(began) != want.took {
				t.Errorf("scrape %d: %v after %s, expected %v after %s", i, got, time.Since(began), want.value, want.took)
			}
		}
		close(hang)
		synctest.Wait()
		if got := value(t, m, "isr_disk_bytes"); got != 3 || asked != 3 {
			t.Errorf("the source was asked %d times, and the value is %v", asked, got)
		}
	})
}

func TestSources(t *testing.T) {
	m, _ := newMetrics(t)
	m.Sample(metrics.Sources{
		Cache: func() isr.Stats {
			return isr.Stats{
				Memory: isr.MemoryStats{Bytes: 5, Limit: 50, Entries: 2}, Flights: 3, Unpublished: 4, LeasesHeld: 6,
				PollLag: 200 * time.Millisecond, StoresDown: []string{"bodies"},
			}
		},
		Origins: func() []metrics.Origin {
			return []metrics.Origin{{Name: "site", Open: true, Waiting: 3, Addresses: []metrics.Address{{URL: "http://a", Up: true, Open: 13, Requests: 14, Ejections: 15}}}}
		},
		Capacity:    func() (float64, float64) { return 1.5, 2 },
		Disk:        func() (int64, int64) { return 10, 100 },
		Buffers:     func() (int64, int64) { return 7, 70 },
		Connections: func() (int, int64, int64) { return 8, 9, 12 },
		HTTP3:       func() (int, int64, int64) { return 13, 14, 15 },
		Ready:       func() map[string]bool { return map[string]bool{"serving": true, "table": false} },
		Downstream:  func() map[string]bool { return map[string]bool{"cdn": true} },
		Dropped:     func() map[string]int64 { return map[string]int64{"access": 7} },
	})
	for _, want := range []struct {
		value       float64
		name, label string
	}{
		{5, "isr_memory_bytes", ""},
		{50, "isr_memory_limit_bytes", ""},
		{2, "isr_memory_entries", ""},
		{3, "isr_flights", ""},
		{4, "isr_unpublished_pages", ""},
		{6, "isr_leases_held", ""},
		{.2, "isr_poll_lag_seconds", ""},
		{1, "isr_store_up", "store=table"},
		{0, "isr_store_up", "store=bodies"},
		{1, "isr_origin_breaker_open", "origin=site"},
		{3, "isr_render_queue_length", "origin=site"},
		{1, "isr_origin_address_up", "address=http://a origin=site"},
		{13, "isr_origin_address_open_requests", "address=http://a origin=site"},
		{14, "isr_origin_address_requests_total", "address=http://a origin=site"},
		{15, "isr_origin_address_ejections_total", "address=http://a origin=site"},
		{1.5, "isr_store_capacity_units_total", "kind=read"},
		{2, "isr_store_capacity_units_total", "kind=write"},
		{10, "isr_disk_bytes", ""},
		{100, "isr_disk_limit_bytes", ""},
		{7, "isr_buffer_bytes", ""},
		{70, "isr_buffer_limit_bytes", ""},
		{8, "isr_connections", ""},
		{9, "isr_connections_closed_total", "cause=reclaimed"},
		{12, "isr_connections_closed_total", "cause=refused"},
		{13, "isr_http3_connections", ""},
		{14, "isr_http3_connections_refused_total", ""},
		{15, "isr_http3_requests_total", ""},
		{1, "isr_ready", "check=serving"},
		{0, "isr_ready", "check=table"},
		{1, "isr_downstream_failing", "destination=cdn"},
		{7, "isr_log_dropped_total", "log=access"},
	} {
		if got := value(t, m, want.name, strings.Fields(want.label)...); got != want.value {
			t.Errorf("%s{%s} is %v, expected %v", want.name, want.label, got, want.value)
		}
	}
}
