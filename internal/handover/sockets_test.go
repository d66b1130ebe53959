package handover

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// A socket is taken for the address that accepts the same connections.
func TestSameAddress(t *testing.T) {
	for _, c := range []struct {
		configured, socket string
		want               bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"127.0.0.1:80", "0.0.0.0:80", false},
		{":80", "[::]:80", true},
		{":80", "0.0.0.0:80", true},
		{"0.0.0.0:80", "[::]:80", true},
		{":80", "127.0.0.1:80", false},
		{"[::1]:80", "[::1]:80", true},
		{"127.0.0.1:80", "[::ffff:127.0.0.1]:80", true},
		{"127.0.0.1:0", "127.0.0.1:80", false},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.configured)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameAddress(at.AddrPort(), netip.MustParseAddrPort(c.socket)); got != c.want {
			t.Errorf("configured %s, socket %s: got %t, want %t", c.configured, c.socket, got, c.want)
		}
	}
}

// What is no listening socket of TCP is refused, and so is what no predecessor has set.
func TestReceiveRefuses(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&socket{file: file}).inspect(); err == nil {
		t.Error("a file was taken for a socket")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	connected, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	if err := (&socket{file: connected}).inspect(); err == nil || !strings.Contains(err.Error(), "does not listen for connections of TCP") {
		t.Errorf("a connection: %v", err)
	}
	for _, text := range []string{"", "5", "6,5", "0,1", "x"} {
		t.Setenv(variable, text)
		if _, err := Receive(); err == nil || !strings.Contains(err.Error(), "is not what a predecessor sets; unset it") {
			t.Errorf("%s=%s: %v", variable, text, err)
		}
	}
}

// A listener of an address that no socket was given for opens one; the configuration need not have the sockets of a
// predecessor.
func TestListenOpens(t *testing.T) {
	s := new(Sockets)
	l, given, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil || given {
		t.Fatal(given, err)
	}
	fds, err := s.duplicate()
	if err != nil || len(fds) != 1 {
		t.Fatal(fds, err)
	}
	closeAll(fds)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if fds, err := s.duplicate(); err != nil || len(fds) != 0 {
		t.Errorf("a closed listener has the duplicates %v, %v", fds, err)
	}
	if s.Managed() || s.Await(t.Context()) != nil || s.CheckUsed(nil) != nil || s.Lock() != nil {
		t.Error("a process that was given nothing has a predecessor or sockets")
	}
	s.Serving()
}
