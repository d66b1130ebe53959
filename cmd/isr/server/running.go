package server

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/httpconn"
)

// DefaultGrace bounds the requests in flight when a DynamoDB server stops.
const DefaultGrace = 10 * time.Second

// headerBytes bounds the head of a request.
const headerBytes = 64 << 10

// newServer returns an HTTP server with timeouts against slow and idle clients, also those whose bodies nothing reads.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           httpconn.LimitUnread(h),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          errorLog(log),
	}
}

// errorLog returns the log of a server of net/http. Its lines are warnings, except handshakes of TLS that
// the client has ended: port scanners, health checks and browsers that connect in advance do so.
func errorLog(log *slog.Logger) *stdlog.Logger { return stdlog.New(serverErrors{log}, "", 0) }

type serverErrors struct{ log *slog.Logger }

// Write implements io.Writer.
func (e serverErrors) Write(p []byte) (int, error) {
	line, level := strings.TrimSuffix(string(p), "\n"), slog.LevelWarn
	if strings.HasPrefix(line, "http: TLS handshake error") && (strings.HasSuffix(line, ": EOF") || strings.HasSuffix(line, "connection reset by peer")) {
		level = slog.LevelDebug
	}
	e.log.Log(context.Background(), level, line)
	return len(p), nil
}

// A Running server answers requests until it is stopped.
type Running struct {
	server *http.Server
	Failed chan error // receives the error of a server that fails

	accepts  chan struct{} // closed once it accepts no more connections
	stopping atomic.Bool
}

func start(server *http.Server, listener net.Listener) *Running {
	return startWith(server, listener, make(chan error, 1))
}

// startWith is start with a channel of failures.
func startWith(server *http.Server, listener net.Listener, failed chan error) *Running {
	r := &Running{server: server, Failed: failed, accepts: make(chan struct{})}
	go func() {
		defer close(r.accepts)
		if err := r.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !r.stopping.Load() {
			r.Failed <- fmt.Errorf("serving %s: %w", listener.Addr(), err)
		}
	}()
	return r
}

// queueTime is how long a server that stops accepts the connections that wait in the queue of its listener.
const queueTime = time.Second

// stopAccepting closes the listener within the one of the server, and waits until the server has all connections that were accepted.
// The system resets those that wait to be accepted when it is closed: a busy machine has some.
func (r *Running) stopAccepting(ctx context.Context, inner net.Listener) {
	r.stopping.Store(true)
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	for hasQueue(inner) && backoff.Wait(ctx, time.Millisecond) == nil {
	}
	_ = inner.Close() // only once
	<-r.accepts
}

// hasQueue reports whether connections wait to be accepted.
func hasQueue(l net.Listener) bool {
	conn, ok := l.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor
	})
	return err == nil && n > 0
}

// Stop accepts no more requests and lets those in flight finish. When ctx is done it closes
// their connections.
func (r *Running) Stop(ctx context.Context, log *slog.Logger) {
	if err := r.server.Shutdown(ctx); err != nil {
		log.Warn("requests canceled at shutdown", "error", err)
		_ = r.server.Close() // the listener is already closed
	}
}

// WithGrace returns the context of a graceful shutdown. It ignores that ctx is done, which
// is what caused the shutdown.
func WithGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// inBackground runs a task until stop is called, which waits for its end. The task goes on while
// ctx ends, because requests may.
func inBackground(ctx context.Context, task func(context.Context)) (stop func()) {
	return untilStopped(context.WithoutCancel(ctx), task)
}

// untilStopped runs a task until ctx is done, or stop is called, which waits for its end.
func untilStopped(ctx context.Context, task func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { task(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// RelaxCollector raises the GC percentage of a server whose long-lived heap is small, so that most
// garbage comes from requests. GOGC takes precedence.
func RelaxCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// displayAddress returns an address that a browser on this machine can open.
func displayAddress(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// A supervisor is the service manager that has started this process, systemd: it is notified of
// the state of a server by the protocol of sd_notify(3), if the variable NOTIFY_SOCKET names
// its socket. It is safe for concurrent use.
type supervisor struct{ log *slog.Logger }

// ready reports that the server serves, or that a reload has ended.
func (s supervisor) ready() { s.tell(daemon.SdNotifyReady) }

// reloading reports that a reload begins. Callers must call the result when it has ended.
func (s supervisor) reloading() (done func()) {
	s.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return s.ready
}

// stopping reports that the server shuts down, and how long that may take.
func (s supervisor) stopping(most time.Duration) {
	s.tell(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, most.Microseconds()))
}

// replacedBy reports that another process serves from now on.
func (s supervisor) replacedBy(pid int) { s.tell(fmt.Sprintf("MAINPID=%d", pid)) }

func (s supervisor) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("failed to notify the service manager", "error", err)
	}
}
