package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The admin API has the metrics too, for clients that have its token.
func TestMetricsOnTheAdminAddress(t *testing.T) {
	s := startFields(t, "admin: {address: 127.0.0.1:0, token: {file: DIR/token}}\ndefaults: {revalidate: 1h}", nil, func(s *fieldServer) { s.write("token", testToken) })
	s.expect("/", 200, stored)
	s.expect("/", 200, hit)
	url := s.logged(`admin API on (http://[^"]+)`) + "/metrics"
	if v := s.get(url); v.code != http.StatusUnauthorized || strings.Contains(v.body, "isr_requests_total") {
		t.Errorf("without a token: %s", v)
	}
	v := s.get(url, "Authorization", bearer(testToken))
	if v.code != http.StatusOK || !strings.HasPrefix(v.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("with the token: %s", v)
	}
	for _, series := range []string{ // some of which count when the response has been sent
		`isr_requests_total{cache="hit",reason="",route="/"} 1`,
		`isr_requests_total{cache="miss",reason="",route="/"} 1`,
		`isr_renders_total{outcome="published",route="/",trigger="miss"} 1`,
		`isr_ready{check="serving"} 1`,
		`isr_store_capacity_units_total{kind="write"}`,
		`isr_disk_limit_bytes`,
		`isr_memory_entries 1`,
		`isr_leases_held 0`,
		`isr_leases_total{result="acquired"} 1`,
		`isr_store_up{store="table"} 1`,
		`isr_store_operation_duration_seconds_count{operation="publish",outcome="ok",store="table"} 1`,
		`http_client_request_duration_seconds_count{error_type="",http_request_method="GET",http_response_status_code="200",origin="site"} 1`,
		`isr_build_info{`,
	} {
		s.until("there is "+series, func() bool {
			return strings.Contains(s.get(url, "Authorization", bearer(testToken)).body, series)
		})
	}
}

// A configuration that was refused is counted, and so is the next one that is not.
func TestReloadsAreCounted(t *testing.T) {
	s := startFields(t, "metrics: {address: 127.0.0.1:0}", nil, nil)
	url := s.logged(`metrics on (http://[^"\s]+)`)
	good := s.file
	s.write("isr.yaml", "nonsense: 1\n"+good)
	s.isrFails("reload")
	s.contains(s.get(url).body, `isr_config_reloads_total{result="error"} 1`)
	s.write("isr.yaml", good)
	s.isr("reload")
	s.contains(s.get(url).body, `isr_config_reloads_total{result="ok"} 1`)
}

// Metrics go to the receiver that the environment names, a last time at shutdown.
func TestServerExports(t *testing.T) {
	received := make(chan int64, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received <- n
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", server.URL)
	s := startFields(t, "", nil, nil)
	s.expect("/", 200, "isr; ")
	s.stop()
	<-s.done
	if n := <-received; n < 1000 {
		t.Errorf("received %d bytes", n)
	}
}

// Requests that visitors invent make no series, through the whole server.
func TestInventedRequestsMakeNoSeries(t *testing.T) {
	s := startFields(t, "metrics: {address: 127.0.0.1:0}\ndefaults: {revalidate: 1h}", nil, nil)
	url := s.logged(`metrics on (http://[^"\s]+)`)
	ask := func(word string) {
		s.get("/" + word)
		s.get("/?" + word + "=" + word)
		s.get("/"+word, "Host", word+".example")
		s.get("/"+word, "Cookie", word+"="+word, "User-Agent", word, "Accept-Language", word)
		s.get("/"+word, "Authorization", word, "X-"+word, word, "Traceparent", word)
		s.do(strings.ToUpper(word), "/"+word)
		s.do(http.MethodPost, "/"+word)
	}
	series := func() (n int) {
		for line := range strings.Lines(s.get(url).body) {
			if strings.HasPrefix(line, "isr_") || strings.HasPrefix(line, "http_") {
				n++
			}
		}
		return n
	}
	for i := range 5 {
		ask(fmt.Sprint("first", i))
	}
	before := series()
	for i := range 40 {
		ask(fmt.Sprint("invented", i))
	}
	if after := series(); after != before || before < 100 {
		t.Errorf("%d series have become %d", before, after)
	}
}
