package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/tracing"
	"github.com/facetheory/isr/store"
)

const (
	remoteTrace = "0af7651916cd43dd8448eb211c80319c"
	remote      = "00-" + remoteTrace + "-b7ad6b7169203331-01"
)

// newTracer returns a tracer that trusts peers with the header X-Trusted, and its spans.
func newTracer(t *testing.T, options ...sdk.TracerProviderOption) (*tracing.Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracer := tracing.New(tracing.Config{
		Trusted: func(r *http.Request) bool { return r.Header.Get("X-Trusted") != "" },
	}, append(options, sdk.WithSpanProcessor(spans))...)
	t.Cleanup(tracer.Close)
	return tracer, spans
}

// serve serves one request, and returns what was reported of it.
func serve(tracer *tracing.Tracer, h http.HandlerFunc, r *http.Request) (x telemetry.Exchange) {
	defer func() { _ = recover() }()
	rec := telemetry.NewRecorder(telemetry.RecorderConfig{
		Sinks: []telemetry.Sink{tracer, sink(func(e *telemetry.Exchange) { x = *e })}, RequestIDs: telemetry.RequestIDsAlways,
	})
	rec.Handler(tracer.Handler(h)).ServeHTTP(httptest.NewRecorder(), r)
	return x
}

type sink func(*telemetry.Exchange)

func (f sink) Done(e *telemetry.Exchange) { f(e) }

// attributes returns the attributes of a span as text, sorted.
func attributes(s sdk.ReadOnlySpan) string {
	var all []string
	for _, a := range s.Attributes() {
		all = append(all, fmt.Sprintf("%s=%v", a.Key, a.Value.AsInterface()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// only returns the only span that has ended.
func only(t *testing.T, spans *tracetest.SpanRecorder) sdk.ReadOnlySpan {
	t.Helper()
	if len(spans.Ended()) != 1 {
		t.Fatalf("%d spans have ended", len(spans.Ended()))
	}
	return spans.Ended()[0]
}

func TestRequest(t *testing.T) {
	tracer, spans := newTracer(t)
	r := httptest.NewRequest(http.MethodGet, "http://example.com/blog/one?token=secret", http.NoBody)
	r.Header.Set("Cookie", "session=secret")
	r.Header.Set("X-Request-Id", "of-balancer")
	x := serve(tracer, func(w http.ResponseWriter, _ *http.Request) {
		report := w.(isr.Reporter).Report()
		report.Route, report.Forward, report.Detail = "/blog/{slug}", "bypass", "query"
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "oh")
	}, r)
	s := only(t, spans)
	const want = "client.address=192.0.2.1 error.type=502 http.request.method=GET http.response.body.size=2 http.response.status_code=502 " +
		"http.route=/blog/{slug} isr.cache=bypass isr.reason=query isr.request_id=of-balancer network.protocol.version=1.1 " +
		"server.address=example.com url.path=/blog/one url.scheme=http"
	if got := attributes(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s.Name() != "GET /blog/{slug}" || s.SpanKind() != trace.SpanKindServer || s.Status().Code != codes.Error || x.TraceID != s.SpanContext().TraceID().String() {
		t.Errorf("got %s, %v, %v; the trace of the exchange is %q", s.Name(), s.SpanKind(), s.Status(), x.TraceID)
	}
}

// Only the trace context of a trusted peer is continued, and none reaches the site.
func TestRemoteContext(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		for _, sampled := range []bool{true, false} {
			t.Run(fmt.Sprint(trusted, sampled), func(t *testing.T) {
				tracer, spans := newTracer(t, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				r.Header.Set("Traceparent", remote)
				if !sampled {
					r.Header.Set("Traceparent", strings.TrimSuffix(remote, "1")+"0")
				}
				r.Header.Set("Tracestate", "vendor=1")
				if trusted {
					r.Header.Set("X-Trusted", "1")
				}
				var inner trace.SpanContext
				x := serve(tracer, func(_ http.ResponseWriter, r *http.Request) {
					inner = trace.SpanContextFromContext(r.Context())
					if r.Header["Traceparent"] != nil || r.Header["Tracestate"] != nil {
						t.Errorf("the site gets %v", r.Header)
					}
				}, r)
				if continued := inner.TraceID().String() == remoteTrace; continued != trusted {
					t.Errorf("the trace is %s", inner.TraceID())
				}
				if got := len(spans.Ended()) == 1 && x.TraceID == remoteTrace; got != (trusted && sampled) || !got && x.TraceID != "" {
					t.Errorf("%d spans, of the trace %q", len(spans.Ended()), x.TraceID)
				}
			})
		}
	}
}

// A response that breaks off is an error, and its span ends.
func TestAbortedRequest(t *testing.T) {
	tracer, spans := newTracer(t)
	serve(tracer, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, httptest.NewRequest("BREW", "/", http.NoBody))
	if s := only(t, spans); s.Name() != "_OTHER" || s.Status().Code != codes.Error || !strings.Contains(attributes(s), "error.type=aborted") {
		t.Errorf("got %s %v %s", s.Name(), s.Status(), attributes(s))
	}
}

// Whatever a visitor sends, values are bounded.
func TestAttributesAreBounded(t *testing.T) {
	tracer, spans := newTracer(t)
	r := httptest.NewRequest(http.MethodGet, "/"+strings.Repeat("a", 100_000), http.NoBody)
	r.Host = strings.Repeat("b", 100_000)
	serve(tracer, func(w http.ResponseWriter, _ *http.Request) {
		w.(isr.Reporter).Report().Route = strings.Repeat("c", 100_000)
	}, r)
	s := only(t, spans)
	for _, a := range s.Attributes() {
		if a.Value.Type() == attribute.STRING && len(a.Value.AsString()) > 1024 {
			t.Errorf("%s has %d bytes", a.Key, len(a.Value.AsString()))
		}
	}
	if len(s.Name()) > 1100 {
		t.Errorf("the name has %d bytes", len(s.Name()))
	}
}

// begun returns the context of a request with a span, which the test ends.
func begun(t *testing.T, tracer *tracing.Tracer) (ctx context.Context, end func()) {
	t.Helper()
	ready, finish, done := make(chan context.Context), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		serve(tracer, func(_ http.ResponseWriter, r *http.Request) {
			ready <- r.Context()
			<-finish
		}, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}()
	return <-ready, func() { close(finish); <-done }
}

// byName returns the spans that have ended, by name.
func byName(spans *tracetest.SpanRecorder) map[string]sdk.ReadOnlySpan {
	all := make(map[string]sdk.ReadOnlySpan)
	for _, s := range spans.Ended() {
		all[s.Name()] = s
	}
	return all
}

func TestOperations(t *testing.T) {
	tracer, spans := newTracer(t)
	leader, endLeader := begun(t, tracer)
	key := store.Key{Text: "example.com/blog/one?token=secret#lang=de"}
	op := func(kind isr.OperationKind) isr.Operation {
		return isr.Operation{Kind: kind, Route: "/blog/{slug}", Key: key, Cause: leader}
	}
	flight, endFlight := tracer.Begin(t.Context(), op(isr.OperationFlight))
	waiter, endWaiter := begun(t, tracer)
	tracer.Join(flight, waiter)
	_, endRead := tracer.Begin(flight, isr.Operation{Kind: isr.OperationTable, Name: "read"})
	endRead(isr.Result{Outcome: "ok"})
	_, endLease := tracer.Begin(flight, op(isr.OperationLease))
	endLease(isr.Result{Outcome: "timeout"})
	rendering := op(isr.OperationRender)
	rendering.Trigger = "miss"
	render, endRender := tracer.Begin(flight, rendering)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Traceparent", strings.Join(r.Header["Traceparent"], "|"))
	}))
	defer origin.Close()
	r, err := http.NewRequestWithContext(render, http.MethodGet, origin.URL+"/blog/one?token=secret", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", remote) // of a visitor
	res, err := tracer.Send(r, http.DefaultTransport.RoundTrip)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	endRender(isr.Result{Outcome: "failed", Reason: "status", Status: 500, Bytes: 5, Err: errors.New("secret")})
	endFlight(isr.Result{Outcome: "failed", Err: errors.New("secret")})
	endWaiter()
	endLeader()

	all := byName(spans)
	caused := trace.SpanContextFromContext(leader)
	for name, parent := range map[string]trace.SpanContext{
		"isr.flight": caused, "isr.table read": trace.SpanContextFromContext(flight), "isr.lease": trace.SpanContextFromContext(flight),
		"isr.render": trace.SpanContextFromContext(flight),
	} {
		s := all[name]
		if s == nil || s.Parent().SpanID() != parent.SpanID() || s.SpanContext().TraceID() != caused.TraceID() {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if links := all["isr.render"].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != caused.SpanID() {
		t.Errorf("the render has the links %v", links)
	}
	joined := trace.SpanContextFromContext(waiter)
	if links := all["isr.flight"].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != joined.SpanID() {
		t.Errorf("the flight has the links %v", links)
	}
	for _, s := range spans.Ended() {
		if s.SpanContext().SpanID() == joined.SpanID() && (len(s.Links()) != 1 || s.Links()[0].SpanContext.TraceID() != caused.TraceID()) {
			t.Errorf("the request that joined has the links %v", s.Links())
		}
		if text := attributes(s) + s.Status().Description; strings.Contains(text, "secret") {
			t.Errorf("%s: %s", s.Name(), text)
		}
	}
	const want = "error.type=failed http.response.status_code=500 http.route=/blog/{slug} isr.bytes=5 isr.outcome=failed isr.reason=status isr.trigger=miss server.address=example.com url.path=/blog/one"
	if got := attributes(all["isr.render"]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range spans.Ended() {
		if s.SpanKind() != trace.SpanKindClient || s.Name() != "GET" {
			continue
		}
		if got := res.Header.Get("X-Traceparent"); got != "00-"+caused.TraceID().String()+"-"+s.SpanContext().SpanID().String()+"-01" {
			t.Errorf("the origin got %q", got)
		}
		if s.Parent().SpanID() != trace.SpanContextFromContext(render).SpanID() {
			t.Errorf("the parent of the request to the origin is %v", s.Parent())
		}
	}
}

// Housekeeping makes no spans; a render that no request has caused makes some.
func TestOperationsWithoutRequest(t *testing.T) {
	tracer, spans := newTracer(t)
	ctx, end := tracer.Begin(t.Context(), isr.Operation{Kind: isr.OperationTable, Name: "changes"})
	end(isr.Result{Outcome: "ok"})
	tracer.Join(ctx, ctx)
	if len(spans.Started()) != 0 {
		t.Errorf("%d spans", len(spans.Started()))
	}
	ctx, endRender := tracer.Begin(t.Context(), isr.Operation{Kind: isr.OperationRender, Trigger: "command"})
	_, endPut := tracer.Begin(ctx, isr.Operation{Kind: isr.OperationBodies, Name: "put"})
	endPut(isr.Result{Outcome: "ok"})
	endRender(isr.Result{Outcome: "published"})
	all := byName(spans)
	if put := all["isr.bodies put"]; put == nil || put.Parent().SpanID() != all["isr.render"].SpanContext().SpanID() || put.SpanKind() != trace.SpanKindClient {
		t.Errorf("got %+v", all)
	}
}

// An origin that does not answer, or answers with an error.
func TestSendFails(t *testing.T) {
	tracer, spans := newTracer(t)
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/?token=secret", http.NoBody)
	for _, c := range []struct {
		send func(*http.Request) (*http.Response, error)
		want string
	}{
		{func(*http.Request) (*http.Response, error) { return nil, errors.New("secret") }, "error.type=unreachable"},
		{func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 404, Body: http.NoBody}, nil
		}, "http.response.status_code=404"},
	} {
		res, err := tracer.Send(r, c.send)
		if err == nil {
			_ = res.Body.Close()
		}
		s := spans.Ended()[len(spans.Ended())-1]
		if s.Status().Code != codes.Error || !strings.Contains(attributes(s), c.want) || strings.Contains(attributes(s), "secret") {
			t.Errorf("got %v %s", s.Status(), attributes(s))
		}
	}
}
