package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/testbed"
)

// Each attempt that AWS throttles is counted, also if the SDK then succeeds; other errors are
// not.
func TestThrottles(t *testing.T) {
	var attempts atomic.Int64
	aws3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := attempts.Add(1)
		switch table := r.Header.Get("X-Amz-Target") != ""; {
		case table && n == 1:
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slower"}`)
		case table:
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			fmt.Fprint(w, `{"TableNames":[]}`)
		case n == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `<Error><Code>NoSuchBucket</Code></Error>`)
		}
	}))
	t.Cleanup(aws3.Close)
	cfg := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), BaseEndpoint: &aws3.URL}
	var counted []isr.OperationKind
	countThrottles(&cfg, func(kind isr.OperationKind) { counted = append(counted, kind) })
	if _, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("pages")}); err == nil {
		t.Error("there is a bucket")
	}
	if want := []isr.OperationKind{isr.OperationTable, isr.OperationBodies}; !slices.Equal(counted, want) || attempts.Load() != 4 {
		t.Errorf("counted %v in %d attempts", counted, attempts.Load())
	}
}

func TestMetricsAddress(t *testing.T) {
	f := &metricsFlags{Metrics: "9182"}
	if err := f.validate(); err == nil || !strings.Contains(err.Error(), `--metrics "9182" is not an address; expected host:port, like 127.0.0.1:9182`) {
		t.Errorf("the error is %v", err)
	}
	for address, warned := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, ":0": true} {
		log := new(testbed.Log)
		m, stop, err := measure(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		r, err := (&metricsFlags{Metrics: address}).serve(m, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.server.Close()
		if got := strings.Contains(log.String(), "level=WARN"); got != warned || !strings.Contains(log.String(), "metrics on http://") {
			t.Errorf("%s: logged %s", address, log)
		}
		_, url, _ := strings.Cut(log.String(), "metrics on ")
		url, _, _ = strings.Cut(url, `"`)
		for host, want := range map[string]int{"": 200, "rebound.example": map[bool]int{false: 403, true: 200}[warned]} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s, Host %q: %s", address, host, res.Status)
			}
		}
	}
}

// The admin API has the metrics too, for those who have its token.
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
