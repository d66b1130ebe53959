//go:build !linux || race

package httpconn

import (
	"net"

	"golang.org/x/sys/unix"
)

// A socket reads and writes a TCP connection. It is safe for concurrent use.
type socket struct{ *net.TCPConn }

func newSocket(c *net.TCPConn) (*socket, error) { return &socket{c}, nil }

// ReadEach reads into p, has take use the bytes, and so on until take stops it, or a read fails.
func (s *socket) ReadEach(p []byte, take func(n int) afterRead) error {
	for {
		n, err := s.Read(p)
		if n == 0 || take(n) == stopReading {
			return err
		}
	}
}

// Write writes two parts, one after the other, and returns how many bytes it has written.
func (s *socket) Write(first, second []byte) (n int64, err error) {
	if len(second) == 0 {
		n, err := s.TCPConn.Write(first)
		return int64(n), err
	}
	parts := net.Buffers{first, second}
	return parts.WriteTo(s.TCPConn)
}

// silent reports whether the connection is open, and there is nothing to read from it. It does not wait.
func (s *socket) silent() bool {
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	err = raw.Control(func(fd uintptr) { _, peeked = peekByte(int(fd)) })
	return err == nil && (peeked == unix.EAGAIN || peeked == unix.EINTR)
}
