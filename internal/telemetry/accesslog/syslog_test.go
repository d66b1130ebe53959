package accesslog

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/testbed"
)

// message is what a server gets of a hit.
var message = regexp.MustCompile(`^<190>1 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ isr ` + strconv.Itoa(os.Getpid()) + ` access - (\{"time":"2026-.*\})$`)

// syslogTo returns a log that writes to a server.
func syslogTo(t *testing.T, address string, log io.Writer) *Log {
	t.Helper()
	l, err := New(Config{Syslog: address, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

func TestSyslogDatagrams(t *testing.T) {
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address, scheme := "127.0.0.1:0", "udp://"
			if network == "unixgram" {
				dir, err := os.MkdirTemp("", "isr") // t.TempDir() is too long a path for a socket
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				address, scheme = filepath.Join(dir, "log"), "unix://"
			}
			server, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			l := syslogTo(t, scheme+server.LocalAddr().String(), io.Discard)
			for range 3 {
				l.Done(hit())
			}
			buf := make([]byte, 64<<10)
			for range 3 {
				n, _, err := server.ReadFrom(buf)
				if err != nil || !message.Match(buf[:n]) {
					t.Fatalf("%v: %q", err, buf[:n])
				}
			}
		})
	}
}

// readMessage reads a message of a stream.
func readMessage(from *bufio.Reader) (string, error) {
	size, err := from.ReadString(' ')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(size))
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(from, text)
	return string(text), err
}

// A server that has closed an idle connection gets later lines by another one.
func TestSyslogStream(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := new(testbed.Log)
	l := syslogTo(t, "tcp://"+server.Addr().String(), log)
	receive := func(lines int) net.Conn {
		conn, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(conn)
		for range lines {
			if text, err := readMessage(from); err != nil || !message.MatchString(text) {
				t.Fatalf("%v: %q", err, text)
			}
		}
		return conn
	}
	const lines = 1000 // more than fit into one write
	for range lines {
		l.Done(hit())
	}
	conn := receive(lines)
	// It closes the connection, and accepts another one: nothing is lost once the log has noticed.
	_ = conn.Close()
	if l.Dropped() > 0 {
		t.Errorf("dropped %d: %s", l.Dropped(), log)
	}
	s := &syslog{network: "tcp", address: server.Addr().String(), header: " h isr 1 access - "}
	if _, err := s.Write([]byte("a\n")); err != nil {
		t.Fatal(err)
	}
	idle, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = idle.Close()
	until(t, "the client has noticed", func() bool { return s.conn.SetDeadline(time.Time{}) != nil })
	if n, err := s.Write([]byte("b\n")); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	again, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := readMessage(bufio.NewReader(again)); err != nil || !strings.HasSuffix(text, " h isr 1 access - b") {
		t.Errorf("%v: %q", err, text)
	}
	_, _ = s.Close(), again.Close()
}

// While there is no server, lines are dropped and counted, and no request waits. A server that comes gets later lines.
func TestSyslogIsAway(t *testing.T) {
	dir, err := os.MkdirTemp("", "isr") // t.TempDir() is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path, log := filepath.Join(dir, "log"), new(testbed.Log)
	l := syslogTo(t, "unix://"+path, log)
	l.Done(hit())
	until(t, "the line is dropped", func() bool { return l.Dropped() == 1 })
	until(t, "it is logged", func() bool { return strings.Contains(log.String(), "failed to write access log") })
	server, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan string, 1)
	go func() {
		text := make([]byte, 64<<10)
		n, _, _ := server.ReadFrom(text)
		received <- string(text[:n])
	}()
	for {
		l.Done(hit())
		select {
		case text := <-received:
			if _ = server.Close(); !message.MatchString(text) {
				t.Errorf("got %q", text)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// After an error, whole messages count as sent, and parts of them do not.
func TestSyslogPartly(t *testing.T) {
	lines := []byte("one\ntwo\nthree\n")
	s := &syslog{network: "tcp", header: " h isr 1 access - "}
	if taken := s.fill(lines); taken != len(lines) || len(s.ends) != 3 {
		t.Fatal(taken, s.ends)
	}
	for _, c := range []struct{ written, arrived int }{{0, 0}, {s.ends[0] - 1, 0}, {s.ends[0], 4}, {s.ends[1] + 1, 8}} {
		s.conn = &tornConn{takes: c.written}
		if arrived, err := s.send(lines); arrived != c.arrived || err == nil {
			t.Errorf("%d bytes written: %d, %v", c.written, arrived, err)
		}
	}
}

// A tornConn takes some bytes of a write, and fails.
type tornConn struct {
	net.Conn
	takes int
}

func (c *tornConn) SetWriteDeadline(time.Time) error { return nil }
func (c *tornConn) Close() error                     { return nil }
func (c *tornConn) Write([]byte) (int, error)        { return c.takes, fmt.Errorf("torn") }

func TestSyslogAddress(t *testing.T) {
	for _, address := range []string{"", "udp://", "localhost:514", "http://a:1", "unix://dev/log", "unix:///", "tcp://a/b", "udp://a:1?b=c", "udp://u@a:1", "udp://a:b", "%zz"} {
		if err := CheckSyslog(address); err == nil || !strings.Contains(err.Error(), "expected one like udp://192.0.2.1:514") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"udp://[::1]", "tcp://logs.example.com", "tcp://a:601/", "unix:///dev/log"} {
		if err := CheckSyslog(address); err != nil {
			t.Error(err)
		}
	}
}
