package tracing

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr/internal/telemetry"
)

// maxText bounds the texts of attributes, in bytes.
const maxText = 1024

// text returns an attribute of at most maxText bytes.
func text(name, value string) attribute.KeyValue {
	return attribute.String(name, value[:min(len(value), maxText)])
}

// Handler serves next within a span for each request. It must be called by a
// [telemetry.Recorder] that has the tracer as a sink: Done ends the span.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := telemetry.ExchangeOf(w)
		if x == nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if t.cfg.Trusted(r) {
			ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		// The origin, and renders with this header in Route.Forward, get the
		// context of our spans.
		for _, name := range t.context.Fields() {
			r.Header.Del(name)
		}
		ctx, span := t.tracer.Start(ctx, methodOf(r), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.Start))
		if c := span.SpanContext(); c.IsSampled() {
			x.TraceID = c.TraceID().String()
		}
		r = r.WithContext(ctx)
		x.Request = r
		next.ServeHTTP(w, r)
	})
}

// Done implements [telemetry.Sink]: it ends the span of the request.
func (t *Tracer) Done(x *telemetry.Exchange) {
	span := trace.SpanFromContext(x.Request.Context())
	defer span.End(trace.WithTimestamp(x.Start.Add(x.Duration)))
	if !span.IsRecording() {
		return
	}
	r := x.Request
	span.SetAttributes(
		attribute.String("http.request.method", methodOf(r)), attribute.String("url.scheme", schemeOf(r)),
		text("url.path", r.URL.EscapedPath()), text("server.address", withoutPort(r.Host)), text("client.address", withoutPort(r.RemoteAddr)),
		attribute.String("network.protocol.version", strconv.Itoa(r.ProtoMajor)+"."+strconv.Itoa(r.ProtoMinor)),
		attribute.Int("http.response.status_code", x.Status), attribute.Int64("http.response.body.size", x.Bytes),
		attribute.String("isr.cache", cacheOf(x)), text("isr.request_id", x.RequestID),
	)
	if x.Route != "" {
		span.SetName(methodOf(r) + " " + x.Route[:min(len(x.Route), maxText)])
		span.SetAttributes(text("http.route", x.Route))
	}
	if x.Detail != "" {
		span.SetAttributes(text("isr.reason", x.Detail))
	}
	if x.Generation != "" {
		span.SetAttributes(text("isr.generation", x.Generation), attribute.Int64("isr.age", int64(x.Age/time.Second)))
	}
	switch {
	case x.Aborted:
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", "aborted"))
	case x.Status >= http.StatusInternalServerError:
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(x.Status)))
	}
}

// cacheOf returns what the cache did: "hit", fwd of Cache-Status, or "none".
func cacheOf(x *telemetry.Exchange) string {
	switch {
	case x.Hit:
		return "hit"
	case x.Forward != "":
		return x.Forward
	}
	return "none"
}

// methodOf returns the method of a request; _OTHER for one that is not common.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return r.Method
	}
	return "_OTHER"
}

// schemeOf returns the scheme that the visitor used. The edge drops the header of peers that are not
// trusted.
func schemeOf(r *http.Request) string {
	if of := r.Header.Get("X-Forwarded-Proto"); r.TLS != nil && of == "" || of == "https" {
		return "https"
	}
	return "http"
}

func withoutPort(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return s
}

// Send sends a request to an origin within a span, whose context the origin gets. It is
// [gateway.SiteConfig.Send].
func (t *Tracer) Send(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, span := t.tracer.Start(r.Context(), methodOf(r), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	span.SetAttributes(
		attribute.String("http.request.method", methodOf(r)), text("url.path", r.URL.EscapedPath()),
		text("server.address", r.URL.Hostname()), text("server.port", r.URL.Port()),
	)
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone() // the transport may still read the header of an earlier attempt
	for _, name := range t.context.Fields() {
		r.Header.Del(name)
	}
	t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
	res, err := send(r)
	switch {
	case err != nil:
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", "unreachable"))
	case res.StatusCode >= http.StatusBadRequest: // by the conventions for clients
		span.SetStatus(codes.Error, "")
		fallthrough
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	}
	return res, err
}
