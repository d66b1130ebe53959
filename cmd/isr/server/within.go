package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/facetheory/isr/internal/admin"
)

// A within is an HTTP server that only this process can reach, over pipes in memory. It is
// its own listener. A command that finds no running server uses it, so that both cases run
// the same code.
type within struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	end    func() // closes closed, once
}

var _ net.Listener = (*within)(nil)

// AskWithin calls do with a client of a handler in this process, without a port.
func AskWithin(h http.Handler, do func(*admin.Client) error) error {
	w := &within{server: newServer(h, slog.New(slog.DiscardHandler)), conns: make(chan net.Conn), closed: make(chan struct{})}
	w.end = sync.OnceFunc(func() { close(w.closed) })
	go func() { _ = w.server.Serve(w) }() // returns after Close
	defer func() { _ = w.server.Close() }()
	return AskThrough(w.transport(), do)
}

// transport returns a transport that connects to the server for any address.
func (w *within) transport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case w.conns <- theirs:
			return ours, nil
		case <-w.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
}

// Accept implements net.Listener.
func (w *within) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *within) Close() error {
	w.end()
	return nil
}

// Addr implements net.Listener.
func (w *within) Addr() net.Addr { return &net.UnixAddr{Name: "within", Net: "pipe"} }

// AskThrough calls do with a client over a transport that needs no token.
func AskThrough(transport http.RoundTripper, do func(*admin.Client) error) error {
	client, err := admin.NewClient("http://localhost", "", transport)
	if err != nil {
		return err
	}
	return do(client)
}
