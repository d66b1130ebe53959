// Package otlp is what exports of metrics and of traces by OTLP share: the OTEL_* variables of
// the OpenTelemetry specification, the resource, and the log of failed exports.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// A Signal is what is exported, as variables name it.
type Signal string

// The signals.
const (
	Metrics Signal = "METRICS"
	Traces  Signal = "TRACES"
)

// Enabled reports whether the environment asks for the signal: it names an endpoint, or the
// exporter otlp.
func (s Signal) Enabled() (bool, error) {
	name := "OTEL_" + string(s) + "_EXPORTER"
	exporter := os.Getenv(name)
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("%s is %q; expected otlp or none", name, exporter)
	case exporter == "otlp", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "", os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != "":
		return true, nil
	}
	return false, nil
}

// GRPC reports whether the protocol is gRPC, instead of HTTP with protobuf.
func (s Signal) GRPC() (bool, error) {
	name := "OTEL_EXPORTER_OTLP_" + string(s) + "_PROTOCOL"
	protocol := os.Getenv(name)
	if protocol == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		protocol = os.Getenv(name)
	}
	switch protocol {
	case "", "http/protobuf":
		return false, nil
	case "grpc":
		return true, nil
	}
	return false, fmt.Errorf("%s is %q; expected http/protobuf or grpc", name, protocol)
}

// Resource describes this process, of a version of isr.
func Resource(ctx context.Context, version string) (*resource.Resource, error) {
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "isr"), attribute.String("service.version", version)),
		resource.WithFromEnv(), // last: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES decide
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}
