//go:build !race

package httpconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket reads and writes a TCP connection as [net.TCPConn] does, with its deadlines, by calls that
// Go's scheduler does not know of. They never wait, since Go's sockets do not block, and are over in
// microseconds. If the kernel interrupts a thread in a call that the scheduler knows of, it takes that
// thread for blocked, and starts another one: on a busy machine that is a tenth of a hit.
//
// It is safe for concurrent use. Builds for the race detector have the other implementation: the
// detector takes the calls of package net for synchronization, and does not know of these.
type socket struct {
	conn          *net.TCPConn
	raw           syscall.RawConn
	reads, writes transfer
	peek          func(fd uintptr) // bound once
}

// A transfer is a call of one direction. Its fields are guarded by mu.
type transfer struct {
	mu    sync.Mutex
	now   func(fd uintptr) bool                           // makes the call, if it does not wait; bound once, so that it allocates nothing
	call  func(fd uintptr) (n uintptr, err syscall.Errno) // the same
	take  func(n int) afterRead                           // gets the result of each read; nil: there is one
	parts [2]unix.Iovec                                   // the bytes to read into, in one part, or to write
	count int                                             // of parts
	name  string                                          // of the system call: recvfrom or writev
	n     int                                             // bytes read or written
	err   syscall.Errno
}

func newSocket(c *net.TCPConn) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{conn: c, raw: raw}
	s.reads.name, s.reads.now, s.reads.call = "recvfrom", s.reads.tryEach, s.reads.receive
	s.writes.name, s.writes.now, s.writes.call = "writev", s.writes.try, s.writes.send
	s.peek = s.reads.peek
	return s, nil
}

// Read waits for bytes, and reads what there is.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return s.read(p, nil)
}

// ReadEach reads into p, has take use the bytes, and so on until take stops it, or a read fails. It is one
// Read of package net, so that take may wait for more without the call that finds nothing to read yet. Until it
// returns, Close of the connection waits for it, so that take must not wait for that.
func (s *socket) ReadEach(p []byte, take func(n int) afterRead) error {
	_, err := s.read(p, take)
	return err
}

func (s *socket) read(p []byte, take func(n int) afterRead) (int, error) {
	n, err := s.reads.make(s.raw.Read, p, nil, take)
	switch {
	case err != nil:
		return 0, s.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes two parts, one after the other, and returns how many bytes it has written.
func (s *socket) Write(first, second []byte) (n int64, err error) {
	for len(first)+len(second) > 0 {
		written, err := s.writes.make(s.raw.Write, first, second, nil)
		if err != nil {
			return n, s.failed("write", err)
		}
		n += int64(written)
		k := min(written, len(first))
		first, second = first[k:], second[written-k:]
	}
	return n, nil
}

// failed returns an error as [net.TCPConn] would. net/http makes one for each request, by a deadline.
func (s *socket) failed(op string, err error) error {
	if outer, ok := err.(*net.OpError); ok { //nolint:errorlint // the error of [syscall.RawConn], which is new
		outer.Op = op
		return outer
	}
	return &net.OpError{Op: op, Net: "tcp", Source: s.conn.LocalAddr(), Addr: s.conn.RemoteAddr(), Err: err}
}

// make makes a call by wait, which calls now until it returns true, and waits before it does so again.
func (t *transfer) make(wait func(now func(fd uintptr) bool) error, first, second []byte, take func(n int) afterRead) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count, t.take = 0, take
	t.add(first)
	t.add(second)
	err := wait(t.now)
	t.parts, t.take = [2]unix.Iovec{}, nil
	if err == nil && t.err != 0 {
		err = os.NewSyscallError(t.name, t.err)
	}
	return t.n, err
}

func (t *transfer) add(part []byte) {
	if len(part) > 0 {
		t.parts[t.count].Base = unsafe.SliceData(part)
		t.parts[t.count].SetLen(len(part))
		t.count++
	}
}

// try makes the call, and returns false if it would wait.
func (t *transfer) try(fd uintptr) bool {
	for {
		n, err := t.call(fd)
		if err == unix.EINTR {
			continue
		}
		t.n, t.err = int(n), err
		return err != unix.EAGAIN
	}
}

// tryEach makes the call while take asks for it, and returns false to wait. Go's poller learns once of bytes
// that come, and remembers that from the beginning of the Read on, of which tryEach is a part: so whatever comes
// after a call ends the wait, also if it came before the wait. A read that did not fill the buffer has left no
// bytes, except those behind urgent data (RFC 6093), and perhaps the end of the stream.
func (t *transfer) tryEach(fd uintptr) bool {
	for t.try(fd) {
		if t.n == 0 || t.err != 0 || t.take == nil {
			return true
		}
		switch t.take(t.n) {
		case stopReading:
			return true
		case awaitBytes:
			if t.n < int(t.parts[0].Len) {
				return false
			}
		case readAgain:
		}
	}
	return false
}

// receive reads, in three quarters of the time of readv.
func (t *transfer) receive(fd uintptr) (n uintptr, err syscall.Errno) {
	n, _, err = unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(t.parts[0].Base)), uintptr(t.parts[0].Len), 0, 0, 0)
	return n, err
}

func (t *transfer) send(fd uintptr) (n uintptr, err syscall.Errno) {
	n, _, err = unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&t.parts)), uintptr(t.count))
	return n, err
}

// silent reports whether the connection is open, and there is nothing to read from it. It does not wait.
func (s *socket) silent() bool {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	return s.raw.Control(s.peek) == nil && (s.reads.err == unix.EAGAIN || s.reads.err == unix.EINTR)
}

// peek looks for a byte to read.
func (t *transfer) peek(fd uintptr) {
	var b [1]byte
	_, _, t.err = unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), uintptr(len(b)), unix.MSG_PEEK, 0, 0)
}
