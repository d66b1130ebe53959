package metrics_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	pb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// otlpReceiver receives OTLP over HTTP, as a collector does.
func otlpReceiver(t *testing.T, status int) (url string, received <-chan *collector.ExportMetricsServiceRequest) {
	t.Helper()
	requests := make(chan *collector.ExportMetricsServiceRequest, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		}
		text, err := io.ReadAll(body)
		export := new(collector.ExportMetricsServiceRequest)
		if err == nil {
			err = proto.Unmarshal(text, export)
		}
		if err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		w.WriteHeader(status)
		requests <- export
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestExport(t *testing.T) {
	url, received := otlpReceiver(t, http.StatusOK)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	m, log := newMetrics(t)
	stop, err := m.Export(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	m.Done(exchange("GET", "/", 200, isr.Report{Route: "/", Hit: true}))
	stop()
	export := <-received
	resource := export.GetResourceMetrics()[0]
	attributes := make(map[string]string)
	for _, a := range resource.GetResource().GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	if attributes["service.name"] != "isr" || attributes["service.version"] != "v1" || attributes["deployment.environment.name"] != "test" {
		t.Errorf("the resource is %v", attributes)
	}
	all := make(map[string]*pb.Metric)
	for _, scope := range resource.GetScopeMetrics() {
		for _, metric := range scope.GetMetrics() {
			all[metric.GetName()] = metric
		}
	}
	requests := all["isr_requests_total"].GetSum()
	if requests == nil || !requests.GetIsMonotonic() || len(requests.GetDataPoints()) != 1 || requests.GetDataPoints()[0].GetAsDouble() != 1 {
		t.Errorf("isr_requests_total is %v", all["isr_requests_total"])
	}
	durations := all["http_server_request_duration_seconds"].GetExponentialHistogram()
	if durations == nil || durations.GetDataPoints()[0].GetCount() != 1 {
		t.Errorf("http_server_request_duration_seconds is %v", all["http_server_request_duration_seconds"])
	}
	if log.String() != "" {
		t.Errorf("logged %s", log)
	}
}

// A collector that refuses the metrics, and later ones, change nothing but the log.
func TestExportFails(t *testing.T) {
	url, received := otlpReceiver(t, http.StatusBadRequest)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", url+"/v1/metrics")
	m, log := newMetrics(t)
	stop, err := m.Export(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	<-received
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "failed to export the last metrics") {
		t.Errorf("logged %s", log)
	}
}

func TestExportIsOffByDefault(t *testing.T) {
	for _, tt := range []struct {
		env     string
		enabled bool
		problem string
	}{
		{"", false, ""},
		{"OTEL_SERVICE_NAME=isr", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", true, ""},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://127.0.0.1:4318/v1/metrics", true, ""},
		{"OTEL_METRICS_EXPORTER=otlp", true, ""},
		{"OTEL_METRICS_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", false, ""},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", false, ""},
		{"OTEL_METRICS_EXPORTER=prometheus", false, `OTEL_METRICS_EXPORTER is "prometheus"; expected otlp or none (for Prometheus, use --metrics)`},
	} {
		t.Run(tt.env, func(t *testing.T) {
			for _, variable := range []string{"OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_SDK_DISABLED"} {
				t.Setenv(variable, "")
			}
			for _, variable := range strings.Fields(tt.env) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			enabled, err := metrics.OTLPEnabled()
			if enabled != tt.enabled || (err != nil) != (tt.problem != "") || err != nil && err.Error() != tt.problem {
				t.Errorf("%v, %v", enabled, err)
			}
		})
	}
}

func TestUnknownProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	m, _ := newMetrics(t)
	if _, err := m.Export(t.Context(), "v1"); err == nil || !strings.Contains(err.Error(), `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; expected http/protobuf or grpc`) {
		t.Errorf("the error is %v", err)
	}
}
