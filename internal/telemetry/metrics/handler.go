package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/facetheory/isr/internal/telemetry/otlp"
)

const (
	// maxScrapes bounds concurrent scrapes; others get 503.
	maxScrapes = 4
	// scrapeTime bounds a scrape.
	scrapeTime = 10 * time.Second
)

// Gatherer returns the registry, for tests and exporters.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves the metrics in the text format of Prometheus, in OpenMetrics, or as protobuf
// with native histograms, as the scraper accepts. It is the same at every path.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            otlp.NewErrorLog(m.log, "failed to gather metrics"),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTime,
		EnableOpenMetrics:   true,
	})
}

// Mux serves GET /metrics, and nothing else.
func (m *Metrics) Mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Not found: expected GET /metrics.", http.StatusNotFound)
	})
	return mux
}
