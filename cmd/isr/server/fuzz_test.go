package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
)

// A sentConn is a connection from an address, on which its peer has sent data and then closed.
type sentConn struct {
	net.Conn
	from netip.AddrPort
	data *bytes.Reader
}

func (c *sentConn) Read(p []byte) (int, error) { return c.data.Read(p) }

func (c *sentConn) Write(p []byte) (int, error) { return len(p), nil }

func (c *sentConn) Close() error { return nil }

func (c *sentConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }

func (c *sentConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:80"))
}

func (c *sentConn) SetDeadline(time.Time) error { return nil }

func (c *sentConn) SetReadDeadline(time.Time) error { return nil }

func (c *sentConn) SetWriteDeadline(time.Time) error { return nil }

// A sentListener accepts one connection.
type sentListener struct{ conn net.Conn }

func (l *sentListener) Accept() (net.Conn, error) {
	conn := l.conn
	if conn == nil {
		return nil, net.ErrClosed
	}
	l.conn = nil
	return conn, nil
}

func (l *sentListener) Close() error { return nil }

func (l *sentListener) Addr() net.Addr { return l.conn.LocalAddr() }

// FuzzProxyProtocol: a header of the PROXY protocol is taken from trusted peers, which must send
// one, and what follows is the request. What other peers send is the request, whatever it is.
func FuzzProxyProtocol(f *testing.F) {
	const request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	v2 := "\r\n\r\n\x00\r\nQUIT\n"
	for _, header := range []string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\n", "PROXY TCP6 2001:db8::1 ::1 1 80\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4 192.0.2.1\r\n",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\n", v2 + "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x00\x01\x00\x50",
		v2 + "\x20\x00\x00\x00", v2 + "\x21\x11\xff\xff", v2 + "\x21\x31\x00\xd8", "",
	} {
		f.Add([]byte(header + request))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		receive := func(from string) (string, []byte, error) {
			conn := &sentConn{from: netip.MustParseAddrPort(from), data: bytes.NewReader(sent)}
			l := acceptProxy(config.Listener{ProxyProtocol: true, TrustedProxies: []string{"10.0.0.0/8"}}, new(http.Server), &sentListener{conn})
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			return c.RemoteAddr().String(), got, err
		}
		if remote, got, err := receive("192.0.2.9:1"); remote != "192.0.2.9:1" || err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("an untrusted peer is %s; it sent %q, read are %q, %v", remote, sent, got, err)
		}
		remote, got, err := receive("10.0.0.9:1")
		if !bytes.HasSuffix(sent, got) || err == nil && len(got) == len(sent) && len(sent) > 0 {
			t.Fatalf("a trusted peer sent %q, read are %q", sent, got)
		}
		if _, invalid := netip.ParseAddrPort(remote); err == nil && invalid != nil && remote != "@" {
			t.Fatalf("%q is from %q", sent, remote)
		}
		if err != nil && errors.Is(err, io.ErrNoProgress) {
			t.Fatal(err)
		}
	})
}
