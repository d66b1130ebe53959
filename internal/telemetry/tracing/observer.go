package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr"
)

// Begin implements [isr.Observer]: an operation is a span, unless it is a call of a store by
// the cache's own housekeeping, such as a poll of the log.
func (t *Tracer) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	page := op.Kind == isr.OperationFlight || op.Kind == isr.OperationRender
	options := []trace.SpanStartOption{trace.WithSpanKind(kindOf(op.Kind))}
	cause := trace.SpanContext{}
	if op.Cause != nil {
		cause = trace.SpanContextFromContext(op.Cause)
	}
	switch parent := trace.SpanContextFromContext(ctx); {
	case !parent.IsValid() && cause.IsValid():
		ctx = trace.ContextWithSpanContext(ctx, cause)
	case !parent.IsValid() && !page:
		return ctx, func(isr.Result) {}
	}
	if op.Kind == isr.OperationRender && cause.IsSampled() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: cause}))
	}
	ctx, span := t.tracer.Start(ctx, nameOf(op), options...)
	if !span.IsRecording() {
		return ctx, func(isr.Result) { span.End() }
	}
	span.SetAttributes(attributesOf(op)...)
	return ctx, func(r isr.Result) { finish(span, r) }
}

// Join implements [isr.Observer]: the work and the request are linked to each other.
func (t *Tracer) Join(work, request context.Context) {
	link(work, request)
	link(request, work)
}

// link links the span of a context to the span of another.
func link(from, to context.Context) {
	if target := trace.SpanContextFromContext(to); target.IsSampled() {
		trace.SpanFromContext(from).AddLink(trace.Link{SpanContext: target})
	}
}

// Note implements [isr.Observer]. Events belong to no request.
func (t *Tracer) Note(isr.Event) {}

func kindOf(kind isr.OperationKind) trace.SpanKind {
	if kind == isr.OperationTable || kind == isr.OperationBodies {
		return trace.SpanKindClient
	}
	return trace.SpanKindInternal
}

// nameOf returns the name of a span: isr.render, isr.table read. Both parts are of closed sets.
func nameOf(op isr.Operation) string {
	name := "isr." + string(op.Kind)
	if op.Name != "" {
		name += " " + op.Name
	}
	return name
}

func attributesOf(op isr.Operation) []attribute.KeyValue {
	var all []attribute.KeyValue
	if op.Route != "" {
		all = append(all, text("http.route", op.Route))
	}
	if host, path, _, _ := op.Key.Split(); host != "" {
		all = append(all, text("server.address", host), text("url.path", path))
	}
	if op.Trigger != "" {
		all = append(all, attribute.String("isr.trigger", op.Trigger))
	}
	return all
}

// finish ends the span of an operation. The text of an error is left out: it may contain
// keys and addresses.
func finish(span trace.Span, r isr.Result) {
	span.SetAttributes(attribute.String("isr.outcome", r.Outcome))
	if r.Reason != "" {
		span.SetAttributes(text("isr.reason", r.Reason))
	}
	if r.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	if r.Bytes > 0 {
		span.SetAttributes(attribute.Int64("isr.bytes", r.Bytes))
	}
	if r.Took > 0 {
		span.SetAttributes(attribute.Float64("isr.render.duration", float64(r.Took)/float64(time.Second)))
	}
	if r.Err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", r.Outcome))
	}
	span.End()
}
