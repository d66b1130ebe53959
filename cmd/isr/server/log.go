package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/config"
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
	log, _ := f.adjustable(s)
	return log
}

// adjustable is [LogFlag.Logger]. adjust changes the format and the level of the logger, and of those that are derived from it.
func (f LogFlag) adjustable(s *cli.Streams) (log *slog.Logger, adjust func(LogFlag)) {
	s.Debug = slog.Level(f.LogLevel) <= slog.LevelDebug
	level, json := new(slog.LevelVar), new(atomic.Bool)
	adjust = func(f LogFlag) {
		level.Set(slog.Level(f.LogLevel))
		json.Store(f.Log == "json")
	}
	adjust(f)
	options := func(json bool) *slog.HandlerOptions {
		return &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if err, ok := a.Value.Any().(error); ok && level.Level() > slog.LevelDebug {
				return slog.String(a.Key, WithoutRequestIDs(err.Error()))
			}
			if json {
				return millisecondsOf(a)
			}
			return a
		}}
	}
	log = slog.New(&eitherFormat{text: slog.NewTextHandler(s.Err, options(false)), json: slog.NewJSONHandler(s.Err, options(true)), isJSON: json})
	slog.SetDefault(log)
	return log, adjust
}

// An eitherFormat writes records as text or JSON, whichever is configured at the time.
type eitherFormat struct {
	text, json slog.Handler
	isJSON     *atomic.Bool
}

func (h *eitherFormat) current() slog.Handler {
	if h.isJSON.Load() {
		return h.json
	}
	return h.text
}

// Enabled implements [slog.Handler].
func (h *eitherFormat) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level) // both have the same level
}

// Handle implements [slog.Handler].
func (h *eitherFormat) Handle(ctx context.Context, r slog.Record) error {
	return h.current().Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *eitherFormat) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &eitherFormat{text: h.text.WithAttrs(attrs), json: h.json.WithAttrs(attrs), isJSON: h.isJSON}
}

// WithGroup implements [slog.Handler].
func (h *eitherFormat) WithGroup(name string) slog.Handler {
	return &eitherFormat{text: h.text.WithGroup(name), json: h.json.WithGroup(name), isJSON: h.isJSON}
}

// adjustedBy returns what a reload does to the logger: it has the format and the level of the file, unless a flag has set
// them.
func (f LogFlag) adjustedBy(flags given, adjust func(LogFlag)) func(*config.File) {
	return func(file *config.File) {
		next := f
		if flags["log"] == "" {
			next.Log = file.Log.Format
		}
		if flags["log-level"] == "" {
			_ = next.LogLevel.UnmarshalText([]byte(file.Log.Level)) // validated
		}
		adjust(next)
	}
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
