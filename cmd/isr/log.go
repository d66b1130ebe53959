package main

import (
	"log/slog"
	"time"
)

// logFlag says how a server logs.
type logFlag struct {
	Log      string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Format of the log, on standard error: text or json (${default})."`
	LogLevel slog.Level `default:"info" placeholder:"LEVEL" help:"Least important lines that are logged: debug, info, warn or error (${default})."`
}

// logger is also the default of the process from then on: net/http and others write
// some lines to that.
func (f logFlag) logger(s *streams) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(s.err, options)
	if f.Log == "json" {
		options.ReplaceAttr = millisecondsOf
		handler = slog.NewJSONHandler(s.err, options)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	return log
}

// millisecondsOf gives durations a unit, which slog writes as nanoseconds in JSON:
// "took": 1500000 becomes "took_ms": 1.5.
func millisecondsOf(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_ms", float64(a.Value.Duration())/float64(time.Millisecond))
}
