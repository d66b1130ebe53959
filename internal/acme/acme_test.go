package acme_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/facetheory/isr/internal/acme"
	"github.com/facetheory/isr/internal/testbed"
)

// The tests of e2e obtain certificates of a real authority. These here have one that is down.

// A broken is an authority that answers nothing but 503.
type broken struct {
	server   *httptest.Server
	storage  string
	requests atomic.Int64
}

func newBroken(t *testing.T) *broken {
	t.Helper()
	b := &broken{storage: filepath.Join(t.TempDir(), "acme")}
	b.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(b.server.Close)
	return b
}

// open returns certificates of the authority, and their log.
func (b *broken) open(t *testing.T) (*acme.Certificates, *testbed.Log) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(b.server.Certificate())
	log := new(testbed.Log)
	c, err := acme.New(acme.Config{
		Directory: b.server.URL, Email: "ops@example.com", Roots: roots, Storage: b.storage,
		TLSALPN: b.server.Listener.Addr(), HTTP: b.server.Listener.Addr(), Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, log
}

// failures returns the errors in a log.
func failures(log *testbed.Log) (all []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "level=ERROR") {
			all = append(all, line)
		}
	}
	return all
}

// awaitFailures waits for errors in a log.
func awaitFailures(t *testing.T, log *testbed.Log, n int) []string {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); len(failures(log)) < n; <-tick.C {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("waited in vain for %d errors in:\n%s", n, log)
		}
	}
	return failures(log)
}

// A failure is logged once, with its host and what to do, and the next Serve retries at once.
// Hosts that are no longer served are not.
func TestFailureIsRetried(t *testing.T) {
	b := newBroken(t)
	c, log := b.open(t)
	c.Serve([]string{"a.test"})
	if problems := c.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Text, "a.test") {
		t.Errorf("problems: %q", problems)
	}
	errs := awaitFailures(t, log, 1)
	for _, want := range []string{"host=a.test", "acme.directory", "retry_in=", "503"} {
		if len(errs) != 1 || !strings.Contains(errs[0], want) {
			t.Errorf("no %q in %q", want, errs)
		}
	}
	if problems := c.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Text, "503") {
		t.Errorf("problems: %q", problems)
	}
	c.Serve([]string{"b.test", "a.test"})
	awaitFailures(t, log, 3)
	c.Serve(nil)
	before := b.requests.Load()
	c.Serve(nil)
	if problems := c.Problems(); problems != nil || b.requests.Load() != before {
		t.Errorf("problems: %q, requests: %d, then %d", problems, before, b.requests.Load())
	}
}

// A handshake for a host that is not served gets the alert for that, and one for a host
// without a certificate fails.
func TestHandshakeWithoutCertificate(t *testing.T) {
	c, _ := newBroken(t).open(t)
	c.Serve([]string{"a.test"})
	for name, want := range map[string]string{"b.test": "unrecognized name", "a.test": "internal error", "": "internal error"} {
		for _, protocols := range [][]string{nil, {"h2", "http/1.1"}, {"acme-tls/1"}} {
			server, client := net.Pipe()
			var serving sync.WaitGroup
			serving.Go(func() {
				_ = tls.Server(server, c.TLSConfig()).HandshakeContext(t.Context()) // fails
				_ = server.Close()
			})
			err := tls.Client(client, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true}).HandshakeContext(t.Context()) //nolint:gosec // there is no certificate
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q with %q: %v, want %q", name, protocols, err, want)
			}
			_ = client.Close()
			serving.Wait()
		}
	}
}

// No request for the path of challenges reaches the site.
func TestAnswer(t *testing.T) {
	c, _ := newBroken(t).open(t)
	c.Serve([]string{"a.test"})
	h := c.Answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for target, want := range map[string]int{
		"http://a.test/": http.StatusTeapot,
		"http://a.test/.well-known/acme-challenge":           http.StatusTeapot,
		"http://a.test/.well-known/acme-challenge/x":         http.StatusNotFound,
		"http://A.test:8080/.well-known/acme-challenge/x":    http.StatusNotFound,
		"http://a.test/.well-known/acme%2Dchallenge/x":       http.StatusNotFound,
		"http://a.test/.well-known/acme-challenge/../x":      http.StatusNotFound,
		"http://b.test/.well-known/acme-challenge/x":         http.StatusNotFound,
		"http://a.test/.well-known/acme-challenge/%2e%2e%2f": http.StatusNotFound,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
			if w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, target, w.Code, want)
			}
		}
	}
}

// A stored certificate is served while the authority is down. One that is due for renewal is
// tried at once.
func TestStoredCertificate(t *testing.T) {
	b := newBroken(t)
	host := strings.ToLower(rand.Text()) + ".test" // certmagic remembers failed renewals of a process
	issuer := strings.TrimPrefix(b.server.URL, "https://")
	file := func(key string) string { return filepath.Join(b.storage, filepath.FromSlash(key)) }
	keys := certmagic.StorageKeys
	if err := os.MkdirAll(file(keys.CertsSitePrefix(issuer, host)), 0o700); err != nil {
		t.Fatal(err)
	}
	// It has been valid since the year 1, so that the last third of its lifetime has begun.
	testbed.WriteCertificate(t, file(keys.SiteCert(issuer, host)), file(keys.SitePrivateKey(issuer, host)), 7, host)
	if err := os.WriteFile(file(keys.SiteMeta(issuer, host)), []byte(`{"sans": ["`+host+`"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, log := b.open(t)
	c.Serve([]string{host})
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	for _, name := range []string{host, strings.ToUpper(host) + ".", ""} {
		cert, err := c.Get(&tls.ClientHelloInfo{ServerName: name, Conn: conn})
		if err != nil || cert == nil || cert.Leaf.SerialNumber.Int64() != 7 {
			t.Errorf("%q: %v, %v", name, cert, err)
		}
	}
	if !c.Has(host) || c.Has("other.test") {
		t.Errorf("there is a certificate for %s alone", host)
	}
	for _, want := range []string{"failed to renew certificate", "host=" + host, "expires_in=", "503"} {
		if errs := awaitFailures(t, log, 1); !strings.Contains(errs[0], want) {
			t.Errorf("no %q in %q", want, errs)
		}
	}
	if problems := c.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Text, "the certificate of "+host+" could not be renewed: ") {
		t.Errorf("problems: %q", problems)
	}
}

// The storage is created for its owner only. It cannot be a file.
func TestStorage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "acme")
	cfg := acme.Config{Directory: "https://127.0.0.1", Email: "ops@example.com", Storage: folder, HTTP: &net.TCPAddr{}}
	c, err := acme.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Storage = file
	var path *os.PathError
	if _, err := acme.New(cfg); !errors.As(err, &path) {
		t.Errorf("a file as storage: %v", err)
	}
	if _, err := acme.New(acme.Config{Storage: folder}); err == nil {
		t.Error("no listener for challenges is no error")
	}
}
