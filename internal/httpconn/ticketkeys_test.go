package httpconn_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/testbed"
)

// keysOf reads a file that has a key for each of its bytes.
func keysOf(path string) func() ([]httpconn.TicketKey, error) {
	return func() (keys []httpconn.TicketKey, err error) {
		text, err := os.ReadFile(path)
		for _, b := range text {
			keys = append(keys, httpconn.TicketKey{b})
		}
		if err == nil && len(keys) == 0 {
			err = errors.New("there is no key")
		}
		return keys, err
	}
}

// serveTickets serves TLS with ticket keys, and sends each client a byte after the handshake.
func serveTickets(t *testing.T, path string, certificate tls.Certificate, log *slog.Logger) (address string) {
	t.Helper()
	keys, err := httpconn.LoadTicketKeys(path, keysOf(path), log)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	keys.Use(config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				encrypted := tls.Server(c, config.Clone())
				_, _ = encrypted.Write([]byte{1})
				_, _ = encrypted.Read(make([]byte, 1)) // until the client closes
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// TestTicketKeys: servers with the same keys resume each other's sessions, also after a rotation that keeps the old key, and
// files that cannot be used leave the previous keys in use.
func TestTicketKeys(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { testTicketKeys(t, version) })
	}
}

func testTicketKeys(t *testing.T, version uint16) {
	dir := t.TempDir()
	testbed.WriteCertificate(t, dir+"/crt", dir+"/key", 1, "a.test")
	certificate, err := tls.LoadX509KeyPair(dir+"/crt", dir+"/key")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tickets")
	write := func(keys string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(keys), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	var text testbed.Log
	log := slog.New(slog.NewTextHandler(&text, nil))
	first, second := serveTickets(t, path, certificate, log), serveTickets(t, path, certificate, log)
	visit := func(address string, sessions tls.ClientSessionCache) (resumed bool) {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, ClientSessionCache: sessions, MaxVersion: version}) //nolint:gosec // a certificate of the test
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err != nil { // after the ticket
			t.Fatal(err)
		}
		return c.ConnectionState().DidResume
	}
	ticket := func() tls.ClientSessionCache { // of the first server
		t.Helper()
		sessions := tls.NewLRUClientSessionCache(1)
		if visit(first, sessions) {
			t.Fatal("a first visit resumed a session")
		}
		return sessions
	}
	// bothLog visits both servers until each has logged a text.
	bothLog := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); strings.Count(text.String(), what) < 2; {
			if visit(second, ticket()); time.Now().After(deadline) {
				t.Fatalf("the log does not have %s twice: %s", what, text.String())
			}
		}
	}
	if !visit(second, ticket()) {
		t.Error("a session is not resumed with the same key")
	}
	old := ticket()
	write("ba")
	bothLog("keys=2")
	if !visit(second, old) {
		t.Error("a session of the old key, which is kept, is not resumed")
	}
	old = ticket()
	write("b")
	bothLog("keys=1")
	if !visit(second, old) {
		t.Error("the new key has not encrypted since the rotation")
	}
	old = ticket()
	write("")
	bothLog("there is no key")
	if !visit(second, old) {
		t.Error("a file without keys has ended the use of the previous ones")
	}
}
