package server

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
)

// accessLogs are the access log of a server, which a reload may replace, and those who follow its requests.
type accessLogs struct {
	tail    accesslog.Tail
	present atomic.Pointer[accesslog.Log] // nil: there is none
	dropped atomic.Int64                  // lines, since the start
	out     io.Writer
	log     *slog.Logger
}

var _ telemetry.Sink = (*accessLogs)(nil)

// Done implements [telemetry.Sink].
func (a *accessLogs) Done(x *telemetry.Exchange) {
	if l := a.present.Load(); l != nil {
		l.Done(x)
	}
	a.tail.Done(x)
}

// accessLog returns the configuration of the access log. It has neither a path nor a syslog server if there is none.
func (f *telemetryFlags) accessLog() accesslog.Config {
	return accesslog.Config{
		Path: f.AccessLog, Syslog: f.accessLogSyslog, Format: accesslog.Format(f.AccessLogFormat), Fields: f.accessLogFields,
		SampleHits: f.AccessLogSampleHits, ClientAddress: accesslog.Address(f.AccessLogClient),
	}
}

// open opens the access log of a configuration; nil if it has none.
func (a *accessLogs) open(cfg accesslog.Config) (*accesslog.Log, error) {
	cfg.Dropped, cfg.Logger = &a.dropped, a.log
	switch {
	case cfg.Path != "" && cfg.Syslog != "":
		return nil, cli.Usagef("--access-log and access_log.syslog exclude each other; remove one of them")
	case cfg.Path == "" && cfg.Syslog == "":
		return nil, nil
	case cfg.Path == "-":
		cfg.Path, cfg.Output = "", a.out
	}
	return accesslog.New(cfg)
}

// start opens the access log of a configuration.
func (a *accessLogs) start(cfg accesslog.Config) error {
	l, err := a.open(cfg)
	if err != nil {
		return err
	}
	a.present.Store(l)
	a.tail.ShowClients(cfg.ClientAddress)
	return nil
}

// prepare prepares the access log of another configuration. Lines that wait are written to the old one.
func (a *accessLogs) prepare(old, next accesslog.Config) (replacement, error) {
	if reflect.DeepEqual(old, next) {
		return replacement{}, nil
	}
	l, err := a.open(next)
	if err != nil {
		return replacement{}, err
	}
	var before *accesslog.Log
	return replacement{
		use: func() {
			before = a.present.Swap(l)
			a.tail.ShowClients(next.ClientAddress)
		},
		retire: func(context.Context) {
			if before != nil {
				before.Close() // which gives up by itself
			}
		},
		discard: func() {
			if l != nil {
				l.Close()
			}
		},
	}, nil
}

// exists reports whether there is an access log now.
func (a *accessLogs) exists() bool { return a.present.Load() != nil }

// reopen opens the file again, for programs that rotate it. It reports whether there is an access log.
func (a *accessLogs) reopen() bool {
	l := a.present.Load()
	if l != nil {
		l.Reopen()
	}
	return l != nil
}

// lost returns how many lines were dropped since the start, by log.
func (a *accessLogs) lost() map[string]int64 {
	n := a.dropped.Load()
	if n == 0 && !a.exists() {
		return nil
	}
	return map[string]int64{"access": n}
}

// close writes the lines that wait.
func (a *accessLogs) close() {
	if l := a.present.Load(); l != nil {
		l.Close()
	}
}
