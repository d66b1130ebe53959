package httpconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// AcceptTLS returns a listener that makes the TLS handshakes of the connections that l accepts, by the server's
// TLSConfig, before the server gets them. So it is known from the beginning whether a connection is one of HTTP/1, as
// [RefuseAmbiguous] must know. Serve on it with [http.Server.Serve]. HTTP/2 needs "h2" among NextProtos.
//
// Each handshake has a goroutine of its own, as with [http.Server.ServeTLS], so that a slow one delays no other
// connection, and takes at most the server's ReadHeaderTimeout. There are as many at once as l accepts
// connections: see [Connections] for a limit. A connection whose handshake has failed is accepted, too: the server makes
// the handshake once more, which fails with the same error, logs that, and answers requests of plain HTTP. Close ends the
// handshakes that are being made. Set TLSConfig before.
func AcceptTLS(s *http.Server, l net.Listener) net.Listener {
	t := &tlsListener{Listener: l, server: s, config: s.TLSConfig.Clone(), ready: make(chan accepted)}
	t.open, t.end = context.WithCancel(context.Background())
	return t
}

type tlsListener struct {
	net.Listener
	server *http.Server
	config *tls.Config
	begin  sync.Once
	making sync.WaitGroup // the handshakes
	ready  chan accepted
	open   context.Context //nolint:containedctx // ends with the listener
	end    context.CancelFunc
}

// An accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

func (l *tlsListener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.run() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

func (l *tlsListener) Close() error {
	l.end()
	return l.Listener.Close()
}

// run accepts connections. After an error it waits until the server accepts again. If l was closed, and not the listener
// itself, the server first gets the connections whose handshakes are being made.
func (l *tlsListener) run() {
	for l.open.Err() == nil {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			l.making.Wait()
		}
		if err != nil {
			l.give(accepted{err: err})
			continue
		}
		l.making.Go(func() { l.handshake(tls.Server(c, l.config)) })
	}
}

// give has Accept return a result. If the listener is closed, it closes the connection.
func (l *tlsListener) give(a accepted) {
	select {
	case l.ready <- a:
	case <-l.open.Done():
		if a.conn != nil {
			_ = a.conn.Close()
		}
	}
}

// handshake makes the handshake of a connection. Like in net/http, a panic of a callback of the configuration ends
// the connection alone.
func (l *tlsListener) handshake(c *tls.Conn) {
	defer func() {
		if v := recover(); v != nil {
			_ = c.NetConn().Close()
			if log := l.server.ErrorLog; log != nil {
				log.Printf("panic in the TLS handshake with %v: %v\n%s", c.RemoteAddr(), v, debug.Stack())
			}
		}
	}()
	if timeout := l.server.ReadHeaderTimeout; timeout > 0 {
		_ = c.SetDeadline(time.Now().Add(timeout)) // fails if the connection is closed, as the handshake then does
	}
	if c.HandshakeContext(l.open) == nil {
		_ = c.SetDeadline(time.Time{}) // the same
	}
	l.give(accepted{conn: c})
}
