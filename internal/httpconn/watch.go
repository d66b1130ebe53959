package httpconn

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchAfter is how long a request is served before its client is watched. Most are over before that,
// and cost no goroutine.
const watchAfter = 100 * time.Millisecond

// A watch cancels a request when its client closes the connection, also if only in its own direction, as
// net/http does. Once the client has sent more, nothing is known of it until that is read.
type watch struct {
	conn   *coalescingConn
	cancel context.CancelFunc
	timer  *time.Timer
	ended  chan struct{}

	mu      sync.Mutex // held to set the read deadline
	stopped bool       // guarded by mu
}

// start begins to watch after a while.
func (w *watch) start(c *coalescingConn, cancel context.CancelFunc) {
	w.conn, w.cancel, w.ended = c, cancel, make(chan struct{})
	w.timer = time.AfterFunc(watchAfter, w.run)
}

func (w *watch) run() {
	defer close(w.ended)
	w.mu.Lock()
	stopped := w.stopped
	if !stopped {
		_ = w.conn.TCPConn.SetReadDeadline(time.Time{}) // the idle time does not count; fails if the connection is closed
	}
	w.mu.Unlock()
	if !stopped && hasEnded(w.conn.TCPConn) {
		w.cancel()
	}
}

// stop ends the watch. Nothing else reads from the connection before.
func (w *watch) stop() {
	if w.timer.Stop() {
		return
	}
	w.mu.Lock()
	w.stopped = true
	_ = w.conn.TCPConn.SetReadDeadline(time.Unix(1, 0)) // ends the wait
	w.mu.Unlock()
	<-w.ended
	w.conn.fast.startIdle(w.conn)
}

// hasEnded waits until a client has closed its side of a connection, which it reports, or has sent more, or
// until the read deadline.
func hasEnded(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	more := false
	err = raw.Read(func(fd uintptr) bool {
		n, err := peekByte(int(fd))
		more = n > 0
		return err != unix.EAGAIN && err != unix.EINTR
	})
	return !more && !errors.Is(err, os.ErrDeadlineExceeded)
}

// hasUnread reports whether there are bytes to read from a connection. It does not wait, also while another goroutine reads.
func hasUnread(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) { n, _ = peekByte(int(fd)) })
	return err == nil && n > 0
}

// peekByte looks for a byte to read, and does not wait.
func peekByte(fd int) (n int, err error) {
	var b [1]byte
	n, _, err = unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, err
}
