package httpconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sockets returns a socket, its connection, and the other end.
func sockets(t *testing.T) (s *socket, own, other *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other = c.(*net.TCPConn)
	if own, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = own.Close(), other.Close() })
	if s, err = newSocket(own); err != nil {
		t.Fatal(err)
	}
	return s, own, other
}

// The kernel takes a part of what is written, and the rest when the reader has read.
func TestSocketWrite(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // more than fits into the buffers of both ends
	for name, c := range map[string]struct{ first, second []byte }{
		"nothing": {}, "first": {long[:9], nil}, "second": {nil, long[:7]}, "both": {long[:9], long[:70]},
		"long first": {long, long[:5]}, "long second": {long[:5], long}, "long": {long, long},
	} {
		t.Run(name, func(t *testing.T) {
			s, own, other := sockets(t)
			type result struct {
				n   int64
				err error
			}
			written := make(chan result, 1)
			go func() {
				n, err := s.Write(c.first, c.second)
				written <- result{n, errors.Join(err, own.CloseWrite())}
			}()
			got, err := io.ReadAll(other)
			if err != nil || !bytes.Equal(got, append(c.first[:len(c.first):len(c.first)], c.second...)) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if w := <-written; w.n != int64(len(got)) || w.err != nil {
				t.Errorf("wrote %d bytes of %d, %v", w.n, len(got), w.err)
			}
		})
	}
}

func TestSocketRead(t *testing.T) {
	s, own, other := sockets(t)
	buffer := make([]byte, 8)
	_ = own.SetReadDeadline(time.Now().Add(-time.Second))
	var timeout net.Error
	if n, err := s.Read(buffer); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the deadline: %d, %v", n, err)
	}
	_ = own.SetReadDeadline(time.Time{})
	read := make(chan string, 1)
	go func() { // waits
		n, err := s.Read(buffer)
		if err != nil {
			t.Error(err)
		}
		read <- string(buffer[:n])
	}()
	_, _ = other.Write([]byte("hello"))
	if got := <-read; got != "hello" {
		t.Errorf("got %q", got)
	}
	_ = other.CloseWrite()
	if n, err := s.Read(buffer); n != 0 || err != io.EOF { //nolint:errorlint // as readers return it
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// What comes after a read finds all bytes, also those that did not fit into the buffer.
func TestReadEach(t *testing.T) {
	for name, after := range map[string]afterRead{"read again": readAgain, "await bytes": awaitBytes} {
		t.Run(name, func(t *testing.T) {
			s, own, other := sockets(t)
			buffer, got := make([]byte, 4), ""
			_, _ = other.Write([]byte("0123456789"))
			take := func(n int) afterRead {
				switch got += string(buffer[:n]); got {
				case "0123456789":
					_, _ = other.Write([]byte("abcd")) // while it is not read
				case "0123456789abcd":
					return stopReading
				}
				return after
			}
			if err := s.ReadEach(buffer, take); err != nil || got != "0123456789abcd" {
				t.Errorf("read %q, %v", got, err)
			}
			_ = own.SetReadDeadline(time.Now().Add(-time.Second))
			if err := s.ReadEach(buffer, take); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after the deadline: %v", err)
			}
			_ = own.SetReadDeadline(time.Time{})
			_, _ = other.Write([]byte("e"))
			_ = other.CloseWrite()
			end := func(n int) afterRead { got += string(buffer[:n]); return readAgain }
			if err := s.ReadEach(buffer, end); !errors.Is(err, io.EOF) || got != "0123456789abcde" {
				t.Errorf("read %q, %v at the end", got, err)
			}
			_ = own.Close()
			if err := s.ReadEach(buffer, take); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// Several goroutines may read and write at once, and no byte is lost.
func TestSocketConcurrent(t *testing.T) {
	const writers, lines = 8, 200
	s, own, other := sockets(t)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range lines {
				if _, err := s.Write(bytes.Repeat([]byte{byte('a' + i)}, 9), []byte("\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		_ = own.CloseWrite()
	}()
	back, err := newSocket(other)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := 0
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			line := make([]byte, 10)
			for {
				n, err := back.Read(line)
				mu.Lock()
				got += n
				mu.Unlock()
				if err != nil {
					if err != io.EOF { //nolint:errorlint // as readers return it
						t.Error(err)
					}
					return
				}
			}
		})
	}
	readers.Wait()
	if got != 10*writers*lines {
		t.Errorf("read %d bytes", got)
	}
}

// Errors are errors of a connection.
func TestSocketErrors(t *testing.T) {
	s, own, other := sockets(t)
	long := make([]byte, 16<<20)
	_ = own.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := s.Write(long, nil); n == 0 || n == int64(len(long)) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("to a client that does not read: %d, %v", n, err)
	}
	_ = own.SetWriteDeadline(time.Time{})
	_, _ = other.SetLinger(0), other.Close() // reset
	for range 100 {
		if _, err := s.Write(long, nil); err != nil {
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Error(err)
			}
			break
		}
	}
	if n, err := s.Read(long); n != 0 || err == nil {
		t.Errorf("after a reset: %d, %v", n, err)
	}
	_ = own.Close()
	if _, err := s.Read(long); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Write(long, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A response that breaks off is reported, with what was sent of it, also after its first step.
func TestSocketSendsPart(t *testing.T) {
	s, own, other := sockets(t)
	c := &coalescingConn{TCPConn: own, socket: s, accepted: time.Now(), stall: time.Minute}
	body := make([]byte, 64<<20)
	go func() {
		_, _ = io.CopyN(io.Discard, other, 2*writeStep)
		_, _ = other.SetLinger(0), other.Close()
	}()
	n, err := c.sendWhole([]byte("head"), body)
	if n <= writeStep || n >= int64(len(body)) || err == nil || c.failed != err { //nolint:errorlint // the same
		t.Errorf("sent %d bytes, %v, failed: %v", n, err, c.failed)
	}
}

// The time to read a response counts from its beginning.
func TestSocketStalls(t *testing.T) {
	s, own, _ := sockets(t)
	c := &coalescingConn{TCPConn: own, socket: s, accepted: time.Now(), stall: 50 * time.Millisecond}
	limit := time.AfterFunc(time.Minute, func() { _ = own.Close() })
	defer limit.Stop()
	if _, err := c.sendWhole(make([]byte, 64<<20), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("to a client that does not read: %v", err)
	}
}
