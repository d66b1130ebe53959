package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"
)

// graceTime is how long a DynamoDB that is told to stop lets its work finish.
const graceTime = 10 * time.Second

// newServer is an HTTP server that clients cannot hold up for nothing.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// A running server answers requests until it is stopped.
type running struct {
	server *http.Server
	failed chan error // gets the error of a server that ends by itself
}

func start(server *http.Server, listener net.Listener) *running {
	r := &running{server: server, failed: make(chan error, 1)}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			r.failed <- err
		}
	}()
	return r
}

// stop takes no more requests, lets those in hand finish, and cuts them off when
// ctx ends.
func (r *running) stop(ctx context.Context, log *slog.Logger) {
	if err := r.server.Shutdown(ctx); err != nil {
		log.Warn("requests were cut off", "error", err)
		_ = r.server.Close() // the listener is closed already
	}
}

// withGrace returns the context of an orderly stop. That ctx has ended, which is
// why there is a stop, does not matter to it.
func withGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// relaxCollector lets the heap of a server grow further between collections than
// Go would: what lives long in it is small or has a bound of its own, and what
// requests leave behind is collected all the time. GOGC, where set, is the
// operator's word.
func relaxCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
