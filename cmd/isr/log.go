package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// logFlag configures the log of a server.
type logFlag struct {
	Log      string   `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Format of the log, on standard error: text or json (${default})."`
	LogLevel logLevel `default:"info" placeholder:"LEVEL" help:"Minimum level of the log: debug, info, warn or error (${default})."`
}

// A logLevel is a level on the command line.
type logLevel slog.Level

func (l *logLevel) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("must be debug, info, warn or error (got %q)", text)
	}
	return nil
}

// logger returns the configured logger, and makes it the default of the process, to which
// net/http and other packages write.
func (f logFlag) logger(s *streams) *slog.Logger {
	level := slog.Level(f.LogLevel)
	s.debug = level <= slog.LevelDebug
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok && !s.debug {
			return slog.String(a.Key, withoutRequestIDs(err.Error()))
		}
		if f.Log == "json" {
			return millisecondsOf(a)
		}
		return a
	}}
	var handler slog.Handler = slog.NewTextHandler(s.err, options)
	if f.Log == "json" {
		handler = slog.NewJSONHandler(s.err, options)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	return log
}

// millisecondsOf gives durations a unit, since slog writes nanoseconds in JSON:
// "took": 1500000 becomes "took_ms": 1.5.
func millisecondsOf(a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_ms", float64(a.Value.Duration())/float64(time.Millisecond))
}

// withoutRequestIDs removes from the text of an AWS error the request ids, which only
// AWS's support needs: "StatusCode: 403, RequestID: 4Z…, HostID: k7…==,
// api error AccessDenied: …".
func withoutRequestIDs(text string) string {
	for _, name := range []string{"RequestID: ", "HostID: "} {
		for {
			before, after, found := strings.Cut(text, name)
			if !found {
				break
			}
			_, rest, more := strings.Cut(after, ", ")
			if !more {
				return strings.TrimSuffix(before, ", ")
			}
			text = before + rest
		}
	}
	return text
}
