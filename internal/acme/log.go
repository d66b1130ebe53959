package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge returns a logger for certmagic that writes to log. What it calls information are its
// steps, which are details here, and what it calls errors concern one attempt: Certificates
// logs the outcome.
func bridge(log *slog.Logger) *zap.Logger { return zap.New(core{log: log}) }

// A core is a [zapcore.Core] on slog.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field // encoded only if something is written
}

var _ zapcore.Core = core{}

func levelOf(level zapcore.Level) slog.Level {
	if level < zapcore.WarnLevel {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (c core) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), levelOf(level))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{log: c.log, fields: slices.Concat(c.fields, fields)}
}

func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoded := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(encoded)
	}
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(encoded.Fields)) {
		attrs = append(attrs, slog.Any(name, encoded.Fields[name]))
	}
	c.log.LogAttrs(context.Background(), levelOf(e.Level), "acme: "+e.Message, attrs...)
	return nil
}

func (c core) Sync() error { return nil }
