package httpconn

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket reads and writes a TCP connection as [net.TCPConn] does, with its deadlines, by calls that
// Go's scheduler does not know of. They never wait, since Go's sockets do not block, and are over in
// microseconds. If the kernel interrupts a thread in a call that the scheduler knows of, it takes that
// thread for blocked, and starts another one: on a busy machine that is a tenth of a hit.
//
// One goroutine at a time may use a socket.
type socket struct {
	raw         syscall.RawConn
	read, write func(fd uintptr) bool // methods, bound once so that a call allocates nothing

	// Of the call in progress.
	buffer []byte        // to read into
	parts  [2]unix.Iovec // to write
	count  int           // of parts
	n      int
	err    syscall.Errno
}

func newSocket(c *net.TCPConn) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{raw: raw}
	s.read, s.write = s.readNow, s.writeNow
	return s, nil
}

// Read waits for bytes, and reads what there is. The buffer must not be empty.
func (s *socket) Read(p []byte) (int, error) {
	s.buffer = p
	err := s.raw.Read(s.read)
	s.buffer = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != 0:
		return 0, os.NewSyscallError("read", s.err)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// Write writes two parts, one after the other, and returns how many bytes it has written.
func (s *socket) Write(first, second []byte) (n int64, err error) {
	defer func() { s.parts = [2]unix.Iovec{} }()
	for len(first)+len(second) > 0 {
		s.count = 0
		s.add(first)
		s.add(second)
		if err := s.raw.Write(s.write); err != nil {
			return n, err
		}
		if s.err != 0 {
			return n, os.NewSyscallError("writev", s.err)
		}
		n += int64(s.n)
		k := min(s.n, len(first))
		first, second = first[k:], second[s.n-k:]
	}
	return n, nil
}

func (s *socket) add(part []byte) {
	if len(part) > 0 {
		s.parts[s.count].Base = unsafe.SliceData(part)
		s.parts[s.count].SetLen(len(part))
		s.count++
	}
}

// readNow returns false if there is nothing to read.
func (s *socket) readNow(fd uintptr) bool {
	return s.call(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(s.buffer)), len(s.buffer))
}

// writeNow returns false if there is no room to write to.
func (s *socket) writeNow(fd uintptr) bool {
	return s.call(unix.SYS_WRITEV, fd, unsafe.Pointer(&s.parts), s.count)
}

// call makes a system call, and returns false if it would have waited.
func (s *socket) call(number, fd uintptr, of unsafe.Pointer, count int) bool {
	for {
		n, _, err := unix.RawSyscall(number, fd, uintptr(of), uintptr(count))
		if err == unix.EINTR {
			continue
		}
		s.n, s.err = int(n), err
		return err != unix.EAGAIN
	}
}
