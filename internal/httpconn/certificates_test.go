package httpconn_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/testbed"
)

// writeCertificate writes a certificate for hosts, in a version that its serial number shows.
func writeCertificate(t *testing.T, f httpconn.CertificateFile, version int64, hosts ...string) {
	t.Helper()
	testbed.WriteCertificate(t, f.Cert, f.Key, version, hosts...)
}

// serial connects and returns the serial number of the certificate for a host.
func serial(t *testing.T, address, host string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: host, InsecureSkipVerify: true}) //nolint:gosec // the test looks at the certificate itself
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificates: the host selects the certificate, changed files are read again, and
// files that cannot be used leave the previous certificates in use.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	files := []httpconn.CertificateFile{
		{Cert: filepath.Join(dir, "a.crt"), Key: filepath.Join(dir, "a.key")},
		{Cert: filepath.Join(dir, "b.crt"), Key: filepath.Join(dir, "b.key")},
	}
	writeCertificate(t, files[0], 1, "a.test")
	writeCertificate(t, files[1], 2, "b.test", "*.b.test")
	var text testbed.Log
	certs, err := httpconn.LoadCertificates(files, slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: certs.Get})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				_ = c.(*tls.Conn).Handshake()
				_ = c.Close()
			}(c)
		}
	}()
	expect := func(what, host string, want int64) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			got := serial(t, l.Addr().String(), host)
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s gets certificate %d; expected %d", what, host, got, want)
			}
		}
	}
	expect("at start", "a.test", 1)
	expect("at start", "b.test", 2)
	expect("at start", "x.b.test", 2)
	expect("at start", "other.test", 1)
	writeCertificate(t, files[1], 3, "b.test")
	expect("changed", "b.test", 3)
	expect("changed", "a.test", 1)
	// A key that does not belong to the certificate, such as between two writes.
	writeCertificate(t, httpconn.CertificateFile{Cert: filepath.Join(dir, "x"), Key: files[0].Key}, 4, "a.test")
	writeCertificate(t, files[1], 5, "b.test")
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(text.String(), "failed to read changed certificates"); {
		expect("half changed", "a.test", 1)
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say so: %s", text.String())
		}
	}
	expect("half changed", "b.test", 3)
	writeCertificate(t, files[0], 6, "a.test")
	expect("repaired", "a.test", 6)
	expect("repaired", "b.test", 5)
}

func TestLoadCertificatesFails(t *testing.T) {
	missing := []httpconn.CertificateFile{{Cert: filepath.Join(t.TempDir(), "none.crt"), Key: "none.key"}}
	if _, err := httpconn.LoadCertificates(missing, nil); err == nil || !strings.Contains(err.Error(), "none.crt with key none.key") {
		t.Errorf("got %v", err)
	}
	if _, err := httpconn.LoadCertificates(nil, nil); err == nil {
		t.Error("no certificates are accepted")
	}
}

// TestEndingCertificates: certificates that end before a time are named by their files, and those that replace them are read.
func TestEndingCertificates(t *testing.T) {
	dir := t.TempDir()
	f := httpconn.CertificateFile{Cert: filepath.Join(dir, "a.crt"), Key: filepath.Join(dir, "a.key")}
	writeCertificate(t, f, 1, "a.test") // for 90 days
	certs, err := httpconn.LoadCertificates([]httpconn.CertificateFile{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range certs.Ending(17 * 24 * time.Hour) {
		t.Errorf("%s ends too soon: %s", file, text)
	}
	n := 0
	for file, text := range certs.Ending(91 * 24 * time.Hour) {
		if n++; file != f.Cert || !strings.HasPrefix(text, "the certificate in "+f.Cert+" ends at ") {
			t.Errorf("%s: %s", file, text)
		}
	}
	if n != 1 {
		t.Errorf("%d certificates end; want 1", n)
	}
}
