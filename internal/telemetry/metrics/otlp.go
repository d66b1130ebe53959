package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/facetheory/isr/internal/telemetry/otlp"
)

// shutdownTime bounds the last export, at shutdown.
const shutdownTime = 5 * time.Second

// OTLPEnabled reports whether the environment asks for metrics by OTLP: it names an endpoint,
// or the exporter otlp. The OpenTelemetry specification defines the variables.
func OTLPEnabled() (bool, error) {
	enabled, err := otlp.Metrics.Enabled()
	if err != nil {
		err = fmt.Errorf("%w (for Prometheus, use --metrics)", err)
	}
	return enabled, err
}

// Export exports the metrics by OTLP until stop is called, as OTEL_* variables of the
// environment configure it: to which endpoint, by which protocol, how often, with which resource
// attributes. Errors of exports are logged and change nothing. stop exports a last time, for
// at most five seconds.
func (m *Metrics) Export(ctx context.Context, version string) (stop func(), err error) {
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export metrics by OTLP: %w", err)
	}
	about, err := otlp.Resource(ctx, version)
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	otel.SetErrorHandler(otlp.NewErrorLog(m.log, "failed to export telemetry"))
	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(
		prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(m.registry))))
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about))
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			m.log.Warn("failed to export the last metrics", "error", err)
		}
	}, nil
}

// newExporter returns the exporter of the protocol that the environment names.
func newExporter(ctx context.Context) (metric.Exporter, error) {
	grpc, err := otlp.Metrics.GRPC()
	switch {
	case err != nil:
		return nil, err
	case grpc:
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}
