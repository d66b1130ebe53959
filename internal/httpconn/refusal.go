package httpconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// refusalTime is how long a failed write waits for the response to be read, which is on its
// way or in the socket's buffer.
const refusalTime = 250 * time.Millisecond

// A Dial opens a connection, as [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// AwaitRefusals makes connections for an [http.Transport] that reads the response of a server
// which refuses a request body before it has read it, for example with 413, and closes the
// connection. The transport gives up at the first failed write; so a write that fails because
// the server has closed the connection returns a quarter of a second later, or when the
// connection is closed.
func AwaitRefusals(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &refusalConn{Conn: bySocket(conn), closed: make(chan struct{})}, nil
	}
}

type refusalConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *refusalConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if isHangup(err) {
		timer := time.NewTimer(refusalTime)
		defer timer.Stop()
		select {
		case <-c.closed:
		case <-timer.C:
		}
	}
	return n, err
}

func (c *refusalConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// isHangup reports whether a write failed because the server has closed the connection.
func isHangup(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// A socketConn is a TCP connection that a socket reads and writes.
type socketConn struct {
	*net.TCPConn
	socket *socket
}

// bySocket returns a connection that a socket reads and writes, if it is one of TCP.
func bySocket(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		if s, err := newSocket(tcp); err == nil {
			return &socketConn{tcp, s}
		}
	}
	return conn
}

func (c *socketConn) Read(p []byte) (int, error) { return c.socket.Read(p) }

func (c *socketConn) Write(p []byte) (int, error) {
	n, err := c.socket.Write(p, nil)
	return int(n), err
}
