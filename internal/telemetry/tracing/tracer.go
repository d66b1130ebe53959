package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/otlp"
)

// shutdownTime bounds the last export, at shutdown.
const shutdownTime = 5 * time.Second

// A Config configures a [Tracer].
type Config struct {
	// Trusted reports whether the trace context of a request may be continued: the context of a
	// trusted peer. Nil means none.
	Trusted func(*http.Request) bool
	// Logger logs failed exports. Nil means slog.Default().
	Logger *slog.Logger
}

// A Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	cfg      Config
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext // W3C Trace Context
}

var (
	_ isr.Observer   = (*Tracer)(nil)
	_ telemetry.Sink = (*Tracer)(nil)
)

// New returns a tracer with a provider, which Close shuts down. The variables OTEL_TRACES_SAMPLER,
// OTEL_BSP_* and OTEL_SPAN_* decide what the options of the provider leave open.
func New(cfg Config, options ...sdk.TracerProviderOption) *Tracer {
	if cfg.Trusted == nil {
		cfg.Trusted = func(*http.Request) bool { return false }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	provider := sdk.NewTracerProvider(options...)
	return &Tracer{cfg: cfg, provider: provider, tracer: provider.Tracer("github.com/facetheory/isr")}
}

// Open returns a tracer that exports by OTLP as OTEL_* variables configure it; nil if the environment
// does not ask for traces. Spans that cannot be exported fast enough are dropped.
func Open(ctx context.Context, version string, cfg Config) (*Tracer, error) {
	enabled, err := otlp.Traces.Enabled()
	if err != nil || !enabled {
		return nil, err
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces by OTLP: %w", err)
	}
	about, err := otlp.Resource(ctx, version)
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	t := New(cfg, sdk.WithBatcher(exporter), sdk.WithResource(about))
	otel.SetErrorHandler(otlp.NewErrorLog(t.cfg.Logger, "failed to export telemetry"))
	return t, nil
}

func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	grpc, err := otlp.Traces.GRPC()
	switch {
	case err != nil:
		return nil, err
	case grpc:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Close exports the spans that have ended, for at most five seconds.
func (t *Tracer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.cfg.Logger.Warn("failed to export the last spans", "error", err)
	}
}
