package httpconn_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/testbed"
)

// testConfig returns the configuration of a server with a certificate, and HTTP/2.
func testConfig(t *testing.T) *tls.Config {
	t.Helper()
	cert, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	testbed.WriteCertificate(t, cert, key, 1, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1", "http/1.0"}, MinVersion: tls.VersionTLS12}
}

// serveTLS serves with a server's TLSConfig. It returns the address, and what Serve returns.
func serveTLS(t *testing.T, s *http.Server) (address string, served <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.TLSConfig == nil {
		s.TLSConfig = testConfig(t)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(httpconn.RefuseAmbiguous(s, httpconn.AcceptTLS(s, l))) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String(), ended
}

// dialIdle opens a connection that sends nothing.
func dialIdle(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return c
}

// awaitLine waits until a log has a text.
func awaitLine(t *testing.T, text *testbed.Log, line string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(text.String(), line); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log has no %q: %s", line, text.String())
		}
	}
}

// getTLS sends a request, and returns the body of the response.
func getTLS(t *testing.T, address string) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of the test
	res, err := client.Get("https://" + address)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// Clients that do not go on with their handshakes delay no others, and are shut out after a while.
func TestSlowHandshakes(t *testing.T) {
	var text testbed.Log
	address, _ := serveTLS(t, &http.Server{
		ReadHeaderTimeout: 50 * time.Millisecond,
		ErrorLog:          log.New(&text, "", 0),
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }),
	})
	var idle []net.Conn
	for range 20 {
		idle = append(idle, dialIdle(t, address))
	}
	for _, c := range idle {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a client that makes no handshake: %v", err)
		}
	}
	awaitLine(t, &text, "i/o timeout")
	for begin := time.Now(); ; {
		got, err := getTLS(t, address)
		if err == nil && got == "served" {
			return
		}
		if time.Since(begin) > 5*time.Minute { // a busy machine may need longer than ReadHeaderTimeout for one handshake
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// A server that is closed ends the handshakes that are being made, and its clients see that.
func TestCloseDuringHandshakes(t *testing.T) {
	s := &http.Server{ReadHeaderTimeout: time.Hour, ErrorLog: log.New(io.Discard, "", 0), Handler: http.NotFoundHandler()}
	address, served := serveTLS(t, s)
	idle := dialIdle(t, address)
	if _, err := getTLS(t, address); err != nil { // idle has been accepted before
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its server")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the address is still open")
	}
}

// A panic of a callback ends one connection, with a line in the log.
func TestHandshakePanics(t *testing.T) {
	var text testbed.Log
	config := testConfig(t)
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName == "broken.test" {
			panic("no certificate for " + hello.ServerName)
		}
		return &config.Certificates[0], nil
	}
	address, _ := serveTLS(t, &http.Server{TLSConfig: config, ErrorLog: log.New(&text, "", 0), Handler: http.NotFoundHandler()})
	if c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "broken.test", InsecureSkipVerify: true}); err == nil { //nolint:gosec // a certificate of the test
		c.Close()
		t.Error("there was a handshake")
	}
	awaitLine(t, &text, "no certificate for broken.test")
	if _, err := getTLS(t, address); err != nil {
		t.Error(err)
	}
}

// A failed handshake is answered and logged as by net/http.
func TestFailedHandshakes(t *testing.T) {
	var text testbed.Log
	address, _ := serveTLS(t, &http.Server{ErrorLog: log.New(&text, "", 0), Handler: http.NotFoundHandler()})
	c := dialIdle(t, address)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if answer, _ := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
		t.Errorf("plain HTTP: got %q", answer)
	}
	awaitLine(t, &text, "http: TLS handshake error from "+c.LocalAddr().String()+": client sent an HTTP request to an HTTPS server")
	if other, err := tls.Dial("tcp", address, &tls.Config{NextProtos: []string{"other"}, InsecureSkipVerify: true}); err == nil { //nolint:gosec // a certificate of the test
		other.Close()
		t.Error("there was a handshake for another protocol")
	}
	awaitLine(t, &text, "client requested unsupported application protocols")
}
