package main

import "log/slog"

// logFlag says how a server logs.
type logFlag struct {
	Log string `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Format of the log, on standard error: text or json (${default})."`
}

func (f logFlag) logger(s *streams) *slog.Logger {
	if f.Log == "json" {
		return slog.New(slog.NewJSONHandler(s.err, nil))
	}
	return slog.New(slog.NewTextHandler(s.err, nil))
}
