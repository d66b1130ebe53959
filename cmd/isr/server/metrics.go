package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// metricsFlags configure the metrics of a server.
type metricsFlags struct {
	Metrics string `placeholder:"ADDR" help:"Address of the metrics for Prometheus, /metrics, without a token, like 127.0.0.1:9182 (none). The admin API has them too. For OpenTelemetry, set OTEL_EXPORTER_OTLP_ENDPOINT."`
}

func (f *metricsFlags) validate() error {
	if f.Metrics == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Metrics); err != nil {
		return cli.Usagef("--metrics %q is not an address; expected host:port, like 127.0.0.1:9182", f.Metrics)
	}
	return nil
}

// serve serves the metrics.
func (f *metricsFlags) serve(ctx context.Context, sockets *handover.Sockets, m *metrics.Metrics, failed chan error, log *slog.Logger) (*Running, error) {
	listener, _, err := sockets.Listen(ctx, f.Metrics)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --metrics", f.Metrics, err)
	}
	url := "http://" + displayAddress(listener.Addr()) + "/metrics"
	handler := m.Mux()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		handler = loopbackOnly(tcp, handler)
	} else {
		log.Warn("metrics without a token at an address that other machines reach: allow only your Prometheus to connect", "address", listener.Addr().String())
	}
	log.Info("metrics on " + url)
	return startWith(newServer(handler, log), listener, failed), nil
}

// loopbackOnly refuses requests whose Host is no loopback address: a web page could read the
// responses by DNS rebinding.
func loopbackOnly(address net.Addr, next http.Handler) http.Handler {
	hosts := gateway.LoopbackHosts().WithListener(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, ok := canonical.Host(r.Host); !ok || !hosts.Serve(host) {
			http.Error(w, "This address serves requests of this machine only: use the host 127.0.0.1 or localhost.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// measure returns the metrics of a server, which it also exports by OTLP if the environment
// asks for it, until stop is called.
func measure(ctx context.Context, log *slog.Logger) (m *metrics.Metrics, stop func(), err error) {
	enabled, err := metrics.OTLPEnabled()
	if err != nil {
		return nil, nil, cli.Usagef("%v", err)
	}
	m, stop = metrics.New(cli.Version(), log), func() {}
	if enabled {
		stop, err = m.Export(ctx, cli.Version())
	}
	return m, stop, err
}

// sources are the sources of the gauges.
func sources(st *Stores, cache *isr.Cache, site *gateway.Site, buffered *buffers.Budget, conns *httpconn.Connections, deliveries *deliveries, h *health, i *instruments) metrics.Sources {
	s := metrics.Sources{
		Cache: cache.Stats,
		Origins: func() (all []metrics.Origin) {
			for _, o := range site.Origins() {
				origin := metrics.Origin{Name: o.Name, Open: o.Open, Waiting: o.Waiting}
				for _, a := range o.Addresses {
					origin.Addresses = append(origin.Addresses, metrics.Address(a))
				}
				all = append(all, origin)
			}
			return all
		},
		Capacity: st.meter.Units,
		Ready:    h.checks,
		Dropped:  i.access.lost,
		Downstream: func() map[string]bool {
			failing := make(map[string]bool)
			for _, name := range deliveries.Destinations() {
				failing[name] = false
			}
			for _, f := range deliveries.failures() {
				failing[f.Destination] = true
			}
			return failing
		},
	}
	if buffered != nil {
		s.Buffers = buffered.Usage
	}
	if conns != nil {
		s.Connections = func() (int, int64, int64) {
			n := conns.Count()
			return n.Open, n.Reclaimed, n.Refused
		}
	}
	if st.disk != nil {
		s.Disk = st.disk.Usage
	}
	return s
}

// countThrottles calls count for each attempt of a call that AWS has throttled, also if a
// later attempt succeeds.
func countThrottles(cfg *aws.Config, count func(isr.OperationKind)) {
	throttles := retry.IsErrorThrottles(retry.DefaultThrottles)
	look := middleware.DeserializeMiddlewareFunc("isrThrottles", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if err != nil && throttles.IsErrorThrottle(err) == aws.TrueTernary {
			kind := isr.OperationTable
			if awsmiddleware.GetServiceID(ctx) == s3.ServiceID {
				kind = isr.OperationBodies
			}
			count(kind)
		}
		return out, metadata, err
	})
	cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(look, middleware.Before) // within the retries
	})
}
