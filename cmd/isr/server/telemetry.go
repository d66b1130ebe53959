package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/telemetry/metrics"
	"github.com/facetheory/isr/internal/telemetry/tracing"
)

// telemetryFlags configure request ids and the access log.
type telemetryFlags struct {
	RequestID string `enum:"always,misses,errors,off" default:"misses" placeholder:"WHEN" help:"Responses that name their request in X-Request-Id: always, misses (all but hits), errors, or off: requests have no ids (${default}). Ids come from trusted proxies or are made, are sent to the origin, and are in logs and traces."`

	AccessLog           string `placeholder:"FILE" help:"File with a line for each request, or - for standard output (none). SIGHUP opens it again."`
	AccessLogFormat     string `enum:"json,text" default:"json" placeholder:"FORMAT" help:"Format of the access log: json, or text, the Combined Log Format and the fields of the cache (${default})."`
	AccessLogClient     string `name:"access-log-client-address" enum:"full,masked,none" default:"full" placeholder:"HOW" help:"Addresses of clients in the access log: full, masked (the last octet of IPv4 and the last 80 bits of IPv6 are zero), or none (${default})."`
	AccessLogSampleHits int    `default:"1" placeholder:"N" help:"Log one in N hits, at random; all other requests are always logged (${default})."`

	accessLogFields []string // access_log.fields
	accessLogSyslog string   // access_log.syslog
}

func (f *telemetryFlags) validate() error {
	if f.AccessLogSampleHits < 1 || f.AccessLogSampleHits > 1_000_000 {
		return cli.Usagef("--access-log-sample-hits must be between 1 and 1000000 (got %d)", f.AccessLogSampleHits)
	}
	return nil
}

// instruments watch a server: sinks receive each request, and observers the work of
// the cache.
type instruments struct {
	metrics    *metrics.Metrics
	access     *accessLogs
	tracer     *tracing.Tracer // nil if there is none
	live       *live.Monitor
	requestIDs telemetry.RequestIDs
	recorder   *telemetry.Recorder // of public requests
	sinks      []telemetry.Sink
	observers  []isr.Observer
	closers    []func()
}

// A watched process serves its health and its metrics from its start.
type watched struct {
	health          *health
	inst            *instruments
	probed, scraped *Running   // the servers of both; nil without an address
	failed          chan error // receives the error of one that fails
}

// observed opens what a command has in which servers run: its health and its metrics can be
// asked for before its stores are open.
func (c *ServeCommand) observed(ctx context.Context, sockets *handover.Sockets, out io.Writer, log *slog.Logger) (_ *watched, err error) {
	w := &watched{health: newHealth(), failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.probed, err = w.probe(ctx, sockets, c, log); err != nil {
		return nil, err
	}
	if w.inst, err = c.instruments(ctx, out, log); err != nil {
		return nil, err
	}
	if w.scraped, err = w.scrape(ctx, sockets, c, log); err != nil {
		return nil, err
	}
	w.inst.metrics.Sample(metrics.Sources{Ready: w.health.checks})
	return w, nil
}

// probe serves the health at the address of a configuration; nil if it has none.
func (w *watched) probe(ctx context.Context, sockets *handover.Sockets, c *ServeCommand, log *slog.Logger) (*Running, error) {
	if c.Health == "" {
		return nil, nil
	}
	return c.healthFlags.serve(ctx, sockets, w.health, w.failed, log)
}

// scrape serves the metrics at the address of a configuration; nil if it has none.
func (w *watched) scrape(ctx context.Context, sockets *handover.Sockets, c *ServeCommand, log *slog.Logger) (*Running, error) {
	if c.Metrics == "" {
		return nil, nil
	}
	return c.metricsFlags.serve(ctx, sockets, w.inst.metrics, w.failed, log)
}

// prepare prepares other addresses of the health and the metrics. New ones answer before those that are gone are closed.
func (w *watched) prepare(ctx context.Context, sockets *handover.Sockets, old, next *setup, log *slog.Logger) (replacement, error) {
	probed, scraped := w.probed, w.scraped
	discard := func() {
		if probed != w.probed {
			closeRunning(probed)
		}
		if scraped != w.scraped {
			closeRunning(scraped)
		}
	}
	var err error
	if old.Health != next.Health {
		probed, err = w.probe(ctx, sockets, next.ServeCommand, log)
	}
	if err == nil && old.Metrics != next.Metrics {
		scraped, err = w.scrape(ctx, sockets, next.ServeCommand, log)
	}
	if err != nil {
		discard()
		return replacement{}, err
	}
	var before [2]*Running
	return replacement{
		use: func() {
			if w.probed != probed {
				before[0] = w.probed
			}
			if w.scraped != scraped {
				before[1] = w.scraped
			}
			w.probed, w.scraped = probed, scraped
		},
		discard: discard,
		retire: func(ctx context.Context) {
			for _, r := range before {
				if r != nil {
					r.Stop(ctx, log)
				}
			}
		},
	}, nil
}

// close closes them; both servers answer to the end.
func (w *watched) close() {
	closeRunning(w.scraped)
	if w.inst != nil {
		w.inst.close()
	}
	closeRunning(w.probed)
}

// closeRunning closes a server at once; r may be nil.
func closeRunning(r *Running) {
	if r != nil {
		_ = r.server.Close()
	}
}

// instruments returns the instruments that the flags and the environment ask for.
func (c *ServeCommand) instruments(ctx context.Context, out io.Writer, log *slog.Logger) (*instruments, error) {
	m, stop, err := measure(ctx, log)
	if err != nil {
		return nil, err
	}
	monitor := live.New()
	i := &instruments{
		metrics: m, live: monitor, requestIDs: telemetry.RequestIDs(c.RequestID), access: &accessLogs{out: out, log: log}, closers: []func(){stop},
	}
	i.sinks = []telemetry.Sink{m, monitor}
	if i.tracer, err = tracing.Open(ctx, cli.Version(), tracing.Config{Trusted: gateway.FromTrustedPeer, Logger: log}); err != nil {
		i.close()
		return nil, cli.Usagef("%v", err)
	}
	if i.tracer != nil {
		i.sinks, i.observers = append(i.sinks, i.tracer), append(i.observers, i.tracer)
		i.closers = append(i.closers, i.tracer.Close)
	}
	// The metrics last: they see the span in the context.
	i.observers = append(i.observers, monitor, m)
	if err = i.access.start(c.accessLog()); err != nil {
		i.close()
		return nil, err
	}
	i.sinks, i.closers = append(i.sinks, i.access), append(i.closers, i.access.close)
	i.recorder = telemetry.NewRecorder(telemetry.RecorderConfig{
		Sinks: i.sinks, RequestIDs: i.requestIDs, IdentifyHits: func() bool { return i.tracer != nil || i.access.exists() },
	})
	return i, nil
}

// observe returns how public requests are served.
func (i *instruments) observe() func(http.ResponseWriter, *http.Request, http.Handler) {
	serve := i.recorder.Serve
	if i.tracer != nil {
		recorded := serve
		serve = func(w http.ResponseWriter, r *http.Request, h http.Handler) { recorded(w, r, i.tracer.Handler(h)) }
	}
	return i.metrics.Active(serve)
}

// observesHits reports whether hits can be observed that net/http does not answer. A trace needs the
// context of the request, and a response that names its request has a header of its own.
func (i *instruments) observesHits() bool {
	return i.tracer == nil && i.requestIDs != telemetry.RequestIDsAlways
}

// watch sets the functions that observe requests to origins.
func (i *instruments) watch(cfg *gateway.SiteConfig) {
	cfg.Answered = i.metrics.Origin
	if i.tracer != nil {
		cfg.Send = i.tracer.Send
	}
}

// observer returns the observer of the cache; nil if there is none.
func (i *instruments) observer() isr.Observer { return telemetry.Observers(i.observers...) }

// close ends the instruments, once all requests have been answered. They end at the same time,
// because each may wait five seconds for a collector or a reader that does not answer.
func (i *instruments) close() {
	var ends sync.WaitGroup
	for _, f := range i.closers {
		ends.Go(f)
	}
	ends.Wait()
}
