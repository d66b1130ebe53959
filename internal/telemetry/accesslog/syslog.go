package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"
)

const (
	// syslogTime bounds a connection attempt, and a write. Requests do not wait for either.
	syslogTime = 2 * time.Second
	// syslogPause is the time between a failed connection attempt and the next one.
	syslogPause = time.Second
	// syslogPriority is local7.info, as in nginx.
	syslogPriority = 23*8 + 6
)

// A syslog sends lines to a syslog server as messages of RFC 5424: a datagram for each over UDP (RFC 5426) and Unix sockets,
// and with octet counting over TCP (RFC 6587). One goroutine uses it.
type syslog struct {
	network, address string
	header           string // from the host name to the message
	conn             net.Conn
	failed           error     // of the last connection attempt
	retry            time.Time // no attempt before
	out              []byte
	ends             []int // of the messages in out
}

// CheckSyslog returns an error for an address that [Config.Syslog] cannot be.
func CheckSyslog(address string) error {
	_, err := newSyslog(address)
	return err
}

// newSyslog returns the client of a server. It connects when there are lines.
func newSyslog(address string) (*syslog, error) {
	u, err := url.Parse(address)
	s := &syslog{}
	switch {
	case err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "":
	case (u.Scheme == "udp" || u.Scheme == "tcp") && u.Hostname() != "" && (u.Path == "" || u.Path == "/"):
		s.network, s.address = u.Scheme, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "514"))
	case u.Scheme == "unix" && u.Host == "" && len(u.Path) > 1:
		s.network, s.address = "unixgram", u.Path
	}
	if s.network == "" {
		return nil, fmt.Errorf("the syslog server %.200q is not an address; expected one like udp://192.0.2.1:514, tcp://logs.example.com:514 or unix:///dev/log", address)
	}
	host, err := os.Hostname()
	if err != nil || host == "" || len(host) > maxHost {
		host = "-"
	}
	s.header = " " + host + " isr " + strconv.Itoa(os.Getpid()) + " access - "
	return s, nil
}

// Write sends lines, which must end with one. It returns how many bytes of whole lines were sent before an error.
func (s *syslog) Write(lines []byte) (sent int, err error) {
	for sent < len(lines) && err == nil {
		taken := s.fill(lines[sent:])
		had := s.conn != nil
		var arrived int
		if arrived, err = s.send(lines[sent:]); err != nil && arrived == 0 && had && s.network == "tcp" {
			arrived, err = s.send(lines[sent:]) // the server has closed the connection while it was idle
		}
		if err == nil {
			arrived = taken
		}
		sent += arrived
	}
	return sent, err
}

// fill makes messages of lines: one, or writeSize bytes on a stream. It returns how many bytes of the lines they have.
func (s *syslog) fill(lines []byte) (taken int) {
	s.out, s.ends = s.out[:0], s.ends[:0]
	now := time.Now().UTC()
	for taken < len(lines) && len(s.out) < writeSize {
		line := lines[taken : taken+bytes.IndexByte(lines[taken:], '\n')]
		var prefix [64]byte
		head := append(strconv.AppendInt(append(prefix[:0], '<'), syslogPriority, 10), ">1 "...)
		head = now.AppendFormat(head, timeFormat)
		if s.network == "tcp" {
			s.out = append(strconv.AppendInt(s.out, int64(len(head)+len(s.header)+len(line)), 10), ' ')
		}
		s.out = append(append(append(s.out, head...), s.header...), line...)
		s.ends = append(s.ends, len(s.out))
		taken += len(line) + 1
		if s.network != "tcp" {
			break
		}
	}
	return taken
}

// send sends the messages that were made of lines. After an error it returns how many bytes of the lines were sent, and the
// connection is closed.
func (s *syslog) send(lines []byte) (arrived int, err error) {
	if err := s.connect(); err != nil {
		return 0, err
	}
	err = s.conn.SetWriteDeadline(time.Now().Add(syslogTime))
	n := 0
	if err == nil {
		n, err = s.conn.Write(s.out)
	}
	if err == nil {
		return len(lines), nil
	}
	for _, end := range s.ends {
		if end <= n {
			arrived += bytes.IndexByte(lines[arrived:], '\n') + 1
		}
	}
	_ = s.Close()
	return arrived, fmt.Errorf("send to syslog server: %w", err)
}

// connect connects to the server, unless an attempt has failed a moment ago.
func (s *syslog) connect() (err error) {
	if s.conn != nil {
		return nil
	}
	if time.Now().Before(s.retry) {
		return s.failed
	}
	if s.conn, err = net.DialTimeout(s.network, s.address, syslogTime); err != nil {
		s.conn, s.failed, s.retry = nil, fmt.Errorf("connect to syslog server: %w", err), time.Now().Add(syslogPause)
		return s.failed
	}
	if s.network == "tcp" {
		// A server never sends anything. If it closes the connection, the next write must fail: it would be lost otherwise.
		go func(conn net.Conn) {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}(s.conn)
	}
	return nil
}

// Close closes the connection.
func (s *syslog) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	if errors.Is(err, net.ErrClosed) {
		return nil // the server has closed it
	}
	return err
}
