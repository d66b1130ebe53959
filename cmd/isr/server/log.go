package server

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
)

// LogFlag configures the log of a server.
type LogFlag struct {
	Log      string   `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Format of the log, on standard error: text or json (${default})."`
	LogLevel logLevel `default:"info" placeholder:"LEVEL" help:"Minimum level of the log: debug, info, warn or error (${default})."`
}

// A logLevel is a level on the command line.
type logLevel slog.Level

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *logLevel) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("must be debug, info, warn or error (got %q)", text)
	}
	return nil
}

// Logger returns the configured logger, and makes it the default of the process, to which
// net/http and other packages write.
func (f LogFlag) Logger(s *cli.Streams) *slog.Logger {
	level := slog.Level(f.LogLevel)
	s.Debug = level <= slog.LevelDebug
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok && !s.Debug {
			return slog.String(a.Key, WithoutRequestIDs(err.Error()))
		}
		if f.Log == "json" {
			return millisecondsOf(a)
		}
		return a
	}}
	var handler slog.Handler = slog.NewTextHandler(s.Err, options)
	if f.Log == "json" {
		handler = slog.NewJSONHandler(s.Err, options)
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

// WithoutRequestIDs removes from the text of an AWS error the request ids, which only
// AWS's support needs: "StatusCode: 403, RequestID: 4Z…, HostID: k7…==,
// api error AccessDenied: …".
func WithoutRequestIDs(text string) string {
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
