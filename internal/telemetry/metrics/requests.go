package metrics

import (
	"cmp"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
)

// Bounds on the series of requests. A series of a histogram is one for each bucket.
const (
	maxRequestSeries = 240
	// Odd requests, of which clients can invent many, leave the series of pages alone.
	maxPageDurations = 20 // GET, status below 400
	maxOddDurations  = 12
)

// requestMetrics count requests and responses.
type requestMetrics struct {
	active    *activeRequests
	fast      prometheus.Counter
	requests  *table[requestKey, prometheus.Counter]
	pages     *table[durationKey, prometheus.Observer] // durations of GET requests with a status below 400
	odd       *table[durationKey, prometheus.Observer] // durations of others
	ordinary  *table[hitKey, hitSeries]                // what the others have for ordinary hits
	hits      prometheus.Histogram
	staleAge  prometheus.Histogram
	collapsed prometheus.Counter
	bytes     map[string]prometheus.Counter // by cache; never written after it was made
}

// activeRequests counts the requests that have begun, and that have ended.
type activeRequests struct{ began, ended atomic.Int64 }

func newActiveRequests(r prometheus.Registerer) *activeRequests {
	a := new(activeRequests)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "http_server_active_requests", Help: "Requests in flight."}, func() float64 {
		ended := a.ended.Load() // first: no request ends before it begins
		return float64(a.began.Load() - ended)
	}))
	return a
}

func (a *activeRequests) begin() { a.began.Add(1) }
func (a *activeRequests) end()   { a.ended.Add(1) }

// A requestKey has the labels of isr_requests_total.
type requestKey struct{ route, cache, reason string }

// A durationKey has the labels of http_server_request_duration_seconds. The status is 0 for
// one that no RFC defines.
type durationKey struct {
	route, method string
	status        int
}

// An ordinary hit answers GET with 200. Both its series are found by one look-up.
type (
	hitKey    struct{ route, reason string }
	hitSeries struct {
		requests prometheus.Counter
		duration prometheus.Observer
	}
)

// Values of the label cache: the tokens of RFC 9211, section 2, and cacheNone for responses
// that the cache has no part in.
const (
	cacheHit  = "hit"
	cacheNone = "none"
)

func newRequestMetrics(r prometheus.Registerer) requestMetrics {
	requests := counterVec(r, "isr_requests_total", "Requests, by how the cache answered them: hit, or why it went to the origin; with the detail of Cache-Status.", "route", "cache", "reason")
	durations := histogramVec(r, "http_server_request_duration_seconds", "Time from the request to the end of the response.", httpBuckets, "http_route", "http_request_method", "http_response_status_code")
	bytes := counterVec(r, "isr_response_bytes_total", "Bytes of response bodies sent to visitors.", "cache")
	duration := func(k durationKey) prometheus.Observer {
		return durations.WithLabelValues(k.route, k.method, statusLabel(k.status))
	}
	m := requestMetrics{
		active:    newActiveRequests(r),
		fast:      counter(r, "isr_fast_path_hits_total", "Hits in memory that were answered without net/http (--fast-path)."),
		hits:      histogram(r, "isr_hit_duration_seconds", "Time from the request to the first byte of the response, for hits.", hitBuckets),
		staleAge:  histogram(r, "isr_stale_age_seconds", "Age of the pages that were served stale.", ageBuckets),
		collapsed: counter(r, "isr_collapsed_requests_total", "Requests that were answered by work that another request had begun."),
		requests: newTable(maxRequestSeries, func(k requestKey) prometheus.Counter {
			return requests.WithLabelValues(k.route, k.cache, k.reason)
		}, func(k requestKey) requestKey { return requestKey{Other, k.cache, Other} }, requestKey{Other, Other, Other}),
		pages: newTable(maxPageDurations, duration, func(k durationKey) durationKey { return durationKey{Other, k.method, k.status} }, durationKey{Other, http.MethodGet, 0}),
		odd:   newTable(maxOddDurations, duration, func(k durationKey) durationKey { return durationKey{Other, otherMethod, k.status} }, durationKey{Other, otherMethod, 0}),
		bytes: make(map[string]prometheus.Counter),
	}
	m.ordinary = newTable(maxRequestSeries, func(k hitKey) hitSeries {
		return hitSeries{
			requests: m.requests.get(requestKey{k.route, cacheHit, k.reason}),
			duration: m.pages.get(durationKey{k.route, http.MethodGet, http.StatusOK}),
		}
	}, func(hitKey) hitKey { return hitKey{Other, Other} }, hitKey{Other, Other})
	for _, cache := range []string{cacheHit, "miss", "stale", "bypass", "method", "request", cacheNone} {
		m.bytes[cache] = bytes.WithLabelValues(cache)
	}
	return m
}

// Done implements telemetry.Sink.
func (m *Metrics) Done(x *telemetry.Exchange) {
	q := &m.requests
	route, cache := cmp.Or(x.Route, Other), q.cacheOf(&x.Report)
	if x.Hit && x.Status == http.StatusOK && x.Request.Method == http.MethodGet {
		series := q.ordinary.get(hitKey{route, x.Detail})
		series.requests.Inc()
		series.duration.Observe(x.Duration.Seconds())
	} else {
		q.requests.get(requestKey{route, cache, x.Detail}).Inc()
		q.durationsOf(x).get(durationKey{route, methodLabel(x.Request.Method), knownStatus(x.Status)}).Observe(x.Duration.Seconds())
	}
	if x.Bytes > 0 {
		q.bytes[cache].Add(float64(x.Bytes))
	}
	if x.Hit {
		q.hits.Observe(cmp.Or(x.FirstByte, x.Duration).Seconds())
		if x.Detail != "" && isStale(x.Detail) {
			q.staleAge.Observe(x.Age.Seconds())
		}
	}
	if x.Collapsed {
		q.collapsed.Inc()
	}
}

// durationsOf returns the durations that an exchange belongs to.
func (q *requestMetrics) durationsOf(x *telemetry.Exchange) *table[durationKey, prometheus.Observer] {
	if x.Request.Method == http.MethodGet && x.Status > 0 && x.Status < http.StatusBadRequest {
		return q.pages
	}
	return q.odd
}

// cacheOf returns the label cache of a report.
func (q *requestMetrics) cacheOf(r *isr.Report) string {
	if r.Hit {
		return cacheHit
	}
	if _, known := q.bytes[r.Forward]; known {
		return r.Forward
	}
	return cacheNone
}

// isStale reports whether the detail of a hit is one of a page that was not fresh. Hits of fresh
// pages have other details (pinned, unpublished, cut-off, negative) or none.
func isStale(detail string) bool {
	switch detail {
	case "pinned", "unpublished", "cut-off", "negative":
		return false
	}
	return true
}

// otherMethod is OpenTelemetry's value for methods that an instrumentation does not know.
const otherMethod = "_OTHER"

// methodLabel returns the label of a method. Only the methods of ordinary pages are known, so that
// requests by all methods make few series.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		return method
	}
	return otherMethod
}

// knownStatus returns a status, or 0 if it is none that Go knows.
func knownStatus(status int) int {
	if http.StatusText(status) == "" {
		return 0
	}
	return status
}

func statusLabel(status int) string {
	if status == 0 {
		return Other
	}
	return strconv.Itoa(status)
}
