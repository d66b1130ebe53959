package metrics

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr"
)

// Bounds on the series of operations.
const (
	maxRenderSeries         = 96
	maxRenderDurationSeries = 16
	maxStoreSeries          = 32
	maxClientSeries         = 12
)

// operationMetrics measure the work of a cache.
type operationMetrics struct {
	renders    *table[renderKey, prometheus.Counter]
	durations  *table[string, prometheus.Observer] // by route
	rendering  prometheus.Gauge
	queue      prometheus.Histogram
	leaseWaits prometheus.Histogram
	stores     *table[storeKey, prometheus.Observer]
	throttles  *prometheus.CounterVec
	origins    *table[originKey, prometheus.Observer]
}

type (
	renderKey struct{ route, trigger, outcome string }
	storeKey  struct{ store, operation, outcome string }
	originKey struct {
		origin, method string
		status         int
		failure        string
	}
)

func newOperationMetrics(r prometheus.Registerer) operationMetrics {
	renders := counterVec(r, "isr_renders_total", "Calls of the origin for a page, by what caused them and how they ended.", "route", "trigger", "outcome")
	durations := histogramVec(r, "isr_render_duration_seconds", "Duration of renders, without the wait for a turn.", renderBuckets, "route")
	stores := histogramVec(r, "isr_store_operation_duration_seconds", "Duration of the calls of the stores.", storeBuckets, "store", "operation", "outcome")
	origins := histogramVec(r, "http_client_request_duration_seconds", "Time from a request to an origin to the header of its response.", httpBuckets, "origin", "http_request_method", "http_response_status_code", "error_type")
	m := operationMetrics{
		renders: newTable(maxRenderSeries, func(k renderKey) prometheus.Counter {
			return renders.WithLabelValues(k.route, k.trigger, k.outcome)
		}, func(k renderKey) renderKey { return renderKey{Other, k.trigger, k.outcome} }, renderKey{Other, Other, Other}),
		durations: newTable(maxRenderDurationSeries, func(route string) prometheus.Observer {
			return durations.WithLabelValues(route)
		}, func(string) string { return Other }, Other),
		rendering:  gauge(r, "isr_renders_in_flight", "Renders in progress."),
		queue:      histogram(r, "isr_render_queue_seconds", "Time that renders waited for their turn at the origin.", waitBuckets),
		leaseWaits: histogram(r, "isr_lease_wait_seconds", "Time that requests waited while another process held the lease of the page.", waitBuckets),
		stores: newTable(maxStoreSeries, func(k storeKey) prometheus.Observer {
			return stores.WithLabelValues(k.store, k.operation, k.outcome)
		}, func(k storeKey) storeKey { return storeKey{k.store, Other, k.outcome} }, storeKey{Other, Other, Other}),
		throttles: counterVec(r, "isr_store_throttles_total", "Calls that AWS has throttled, each attempt counted.", "store"),
		origins: newTable(maxClientSeries, func(k originKey) prometheus.Observer {
			status := ""
			if k.failure == "" {
				status = statusLabel(k.status)
			}
			return origins.WithLabelValues(k.origin, k.method, status, k.failure)
		}, func(k originKey) originKey { return originKey{k.origin, otherMethod, 0, k.failure} }, originKey{Other, otherMethod, 0, Other}),
	}
	for _, store := range []string{string(isr.OperationTable), string(isr.OperationBodies)} {
		m.throttles.WithLabelValues(store)
	}
	return m
}

// Begin implements isr.Observer. An observer of traces must come before, so that the context
// has the span of the operation.
func (m *Metrics) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	o, began := &m.operations, time.Now()
	if op.Kind == isr.OperationRender {
		o.rendering.Inc()
	}
	return ctx, func(result isr.Result) {
		took := time.Since(began).Seconds()
		switch op.Kind {
		case isr.OperationRender:
			o.rendering.Dec()
			route := cmp.Or(op.Route, Other)
			o.renders.get(renderKey{route, op.Trigger, result.Outcome}).Inc()
			observeTraced(ctx, o.durations.get(route), cmp.Or(result.Took.Seconds(), took))
		case isr.OperationQueue:
			o.queue.Observe(took)
		case isr.OperationLease:
			o.leaseWaits.Observe(took)
		case isr.OperationTable, isr.OperationBodies:
			o.stores.get(storeKey{string(op.Kind), op.Name, result.Outcome}).Observe(took)
		}
	}
}

// Join implements isr.Observer. Requests that joined are counted by Done.
func (m *Metrics) Join(context.Context, context.Context) {}

// observeTraced observes a value, with the id of the trace as exemplar if it is sampled.
func observeTraced(ctx context.Context, h prometheus.Observer, value float64) {
	span := trace.SpanContextFromContext(ctx)
	if traced, ok := h.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		traced.ObserveWithExemplar(value, prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	h.Observe(value)
}

// Throttled counts an attempt of a call that AWS has throttled.
func (m *Metrics) Throttled(store isr.OperationKind) {
	m.operations.throttles.WithLabelValues(string(store)).Inc()
}

// Origin observes a request to an origin: the status of its response, or the error without
// one.
func (m *Metrics) Origin(origin, method string, status int, err error, took time.Duration) {
	k := originKey{origin: origin, method: methodLabel(method), status: knownStatus(status), failure: errorType(err)}
	m.operations.origins.get(k).Observe(took.Seconds())
}

// errorType returns the label error_type: a word of a closed set.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	var timeout net.Error // allocated, as errors.As gets their addresses
	var dial *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "connect"
	}
	return "broken"
}
