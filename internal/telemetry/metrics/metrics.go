// Package metrics counts what a server does, for Prometheus and OpenTelemetry.
//
//	requests    telemetry.Handler ──► Done          ─┐
//	operations  isr.Cache         ──► Begin, Note   ─┼─► registry ──► /metrics, OTLP
//	gauges      Sources           ◄── at a scrape   ─┘
//
// Labels have values of the configuration (routes, origins) or of closed sets. No URL, host,
// header, tag, tenant or client is in a label. Each metric has a bound on its series; what
// exceeds it is counted as Other, so that the whole stays near 2,000 series.
package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
)

// Other is the value of labels for requests of no route, which includes those for hosts that
// are not served, and for what exceeds the number of series of a metric.
const Other = "_other"

// Metrics are the metrics of one server, with a registry of their own. All methods are safe
// for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	sampled  sampled
	sources  atomic.Pointer[sampler]

	requests   requestMetrics
	operations operationMetrics
	events     eventMetrics
	server     serverMetrics
}

var (
	_ telemetry.Sink = (*Metrics)(nil)
	_ isr.Observer   = (*Metrics)(nil)
)

// New returns the metrics of a server of a version. Errors of scrapes and exports go to log,
// at most one a minute.
func New(version string, log *slog.Logger) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), sampled: newSampled(), log: log}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{m},
	)
	m.requests = newRequestMetrics(m.registry)
	m.operations = newOperationMetrics(m.registry)
	m.events = newEventMetrics(m.registry)
	m.server = newServerMetrics(m.registry)
	info := gaugeVec(m.registry, "isr_build_info", "Version of isr and of Go that this server was built with; always 1.", "version", "goversion")
	info.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

// Active returns serve, which serves a request by a handler, and counts the requests in it.
func (m *Metrics) Active(serve func(http.ResponseWriter, *http.Request, http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
	active := m.requests.active
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		active.begin()
		defer active.end()
		serve(w, r, next)
	}
}

// Requests returns how many requests have begun so far. It is fast, and safe for concurrent use.
func (m *Metrics) Requests() int64 { return m.requests.active.began.Load() }

// FastPath counts the hits that are answered without Active.
func (m *Metrics) FastPath() FastPath { return FastPath{m} }

// A FastPath records hits that are answered without net/http.
type FastPath struct{ m *Metrics }

// Begin counts a hit, and that it is in flight.
func (f FastPath) Begin() {
	f.m.requests.active.begin()
	f.m.requests.fast.Inc()
}

// End ends what Begin has begun.
func (f FastPath) End() { f.m.requests.active.end() }

// Buckets of the classic histograms, in seconds. The first are the buckets of OpenTelemetry's
// http.server.request.duration.
var (
	httpBuckets   = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	hitBuckets    = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1}
	renderBuckets = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	waitBuckets   = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30}
	storeBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	spreadBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ageBuckets    = []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}
)

// histogramOpts returns a histogram that is classic and native. The native one has at most
// 160 buckets: beyond that it is reset, at most once an hour, or else made coarser.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

func histogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(histogramOpts(name, help, buckets))
	r.MustRegister(h)
	return h
}

func histogramVec(r prometheus.Registerer, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
	r.MustRegister(h)
	return h
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func counterVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func gauge(r prometheus.Registerer, name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func gaugeVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}
