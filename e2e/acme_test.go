package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
)

// A server that starts while the certificate authority is down serves its other listeners, and
// obtains its certificate by TLS-ALPN-01 once it can. A reload adds a host. After a restart
// without the authority, the stored certificates are served.
func TestCertificateByTLSALPN(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "tls-alpn", 90*24*time.Hour)
	s.start("a.test")
	s.await("the failure to reach the authority", func() bool { return strings.Contains(s.p.Log(), `msg="failed to obtain certificate`) })
	if r := s.visit("a.test", s.plain); r.status != http.StatusOK {
		t.Errorf("the plain listener, without a certificate: %v", r)
	}
	if _, err := s.handshake("a.test"); err == nil {
		t.Error("a handshake without a certificate succeeded")
	}
	if r := get(t, s.health+"/readyz"); !strings.Contains(r.body, "there is no certificate for a.test") {
		t.Errorf("/readyz: %s", r.body)
	}

	s.startAuthority()
	s.reload("a.test") // which retries at once
	first := s.awaitCertificate("a.test", nil)
	if r := s.visit("a.test", s.plain); r.status != http.StatusMovedPermanently {
		t.Errorf("the plain listener: %v", r)
	}
	s.visit("a.test", s.url) // renders the page
	if r := s.visit("a.test", s.url); r.status != http.StatusOK || !r.hit() {
		t.Errorf("by HTTPS: %v, %v", r, r.err)
	}
	if _, err := s.handshake("b.test"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("a handshake for an unknown host: %v", err)
	}
	if c, err := s.handshake(""); err != nil || c.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Errorf("a handshake that names no host: %v", err)
	}
	err := filepath.WalkDir(filepath.Join(s.dir, "data", "acme"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (d.IsDir() || strings.HasSuffix(path, ".key")) && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %s: %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	if r := get(t, s.health+"/readyz"); !strings.Contains(r.body, `"ready"`) {
		t.Errorf("/readyz: %s", r.body)
	}

	s.reload("a.test, b.test")
	s.awaitCertificate("b.test", nil)
	s.reload("b.test")
	if _, err := s.handshake("a.test"); err == nil {
		t.Error("a host that is no longer served has a certificate")
	}

	s.stop()
	s.authority.Kill()
	s.start("a.test, b.test")
	if c, err := s.handshake("a.test"); err != nil || c.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Errorf("after a restart: %v", err)
	}
	if strings.Contains(s.p.Log(), `msg="obtained certificate"`) {
		t.Error("the stored certificate was not used")
	}
}

// A certificate is obtained by HTTP-01, with an external account, and renewed at once when the
// server starts after it has expired. The path of challenges does not reach the origin.
func TestCertificateByHTTP(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "http", 3*time.Second)
	s.start("a.test")
	s.startAuthority()
	s.reload("a.test")
	first := s.awaitCertificate("a.test", nil)
	const path = "/.well-known/acme-challenge/unknown"
	if r := s.visit("a.test", s.plain+path); r.status != http.StatusNotFound || s.origin.count(path) != 0 {
		t.Errorf("a challenge that nothing waits for: %v, %d requests at the origin", r, s.origin.count(path))
	}
	s.stop()
	awaitClock(t, "the end of the certificate", first.NotAfter.Add(time.Second))
	s.start("a.test")
	s.awaitCertificate("a.test", first)
	if !strings.Contains(s.p.Log(), "renewal=true") {
		t.Error("the log does not say that the certificate was renewed")
	}
}

// Servers that share the storage answer each other's challenges: one cannot reach the authority,
// which reaches only that one.
func TestCertificateOfFleet(t *testing.T) {
	t.Parallel()
	reached := newSecured(t, "tls-alpn", 90*24*time.Hour)
	reached.startAuthority()
	reached.storage = filepath.Join(t.TempDir(), "shared")
	other := newSecured(t, "tls-alpn", 90*24*time.Hour)
	other.storage, other.directory, other.authority = reached.storage, reached.directory, reached.authority
	other.trusted = reached.cert
	reached.trusted = other.cert // not the certificate of the authority
	reached.start("a.test")
	reached.await("the failure to verify the authority", func() bool {
		return strings.Contains(reached.p.Log(), "failed to verify certificate") && strings.Contains(reached.p.Log(), `msg="failed to obtain certificate`)
	})
	other.start("a.test")
	c := other.awaitCertificate("a.test", nil)
	reached.reload("a.test")
	reached.await("the certificate that the other server has obtained", func() bool {
		shared, err := reached.handshake("a.test")
		return err == nil && shared.SerialNumber.Cmp(c.SerialNumber) == 0
	})
}

// A secured is a server whose certificates a certificate authority issues, on ports that it
// has again after a restart.
type secured struct {
	settings
	t         *testing.T
	origin    *origin
	challenge string
	lifetime  time.Duration // of certificates

	storage    string // of certificates; empty for the default
	trusted    string // file with the roots of the authority's own HTTPS
	directory  string // address of the authority
	management string
	key        string // files of the authority's own HTTPS
	cert       string
	authority  *process.Process

	p                  *process.Process
	url, plain, health string // of the listeners
}

func newSecured(t *testing.T, challenge string, lifetime time.Duration) *secured {
	t.Helper()
	s := &secured{settings: embedded(t), t: t, origin: newOrigin(t), challenge: challenge, lifetime: lifetime}
	s.env = append(s.env, "ISR_ADMIN=none", "HMAC_KEY="+hmacKey)
	s.origin.set("/", page(3600, 0))
	s.directory, s.management = freeAddress(t), freeAddress(t)
	s.cert, s.key = filepath.Join(s.dir, "authority.crt"), filepath.Join(s.dir, "authority.key")
	testbed.WriteCertificate(t, s.cert, s.key, 1, "127.0.0.1")
	s.trusted = s.cert
	s.url, s.plain = "https://"+freeAddress(t), "http://"+freeAddress(t)
	s.health = "http://" + freeAddress(t)
	return s
}

// hmacKey is the key of the external account, whose identifier is "kid-1".
const hmacKey = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"

// write writes the configuration file for hosts.
func (s *secured) write(hosts string) {
	s.t.Helper()
	storage := ""
	if s.storage != "" {
		storage = "\n  storage: " + s.storage
	}
	text := fmt.Sprintf(`listen:
  - {address: %q, acme: true}
  - {address: %q}
hosts: [%s]
acme:
  email: ops@example.com
  agree: true
  directory: https://%s/dir
  ca_file: %s
  challenges: %s
  external_account: {key_id: kid-1, hmac_key: "${HMAC_KEY}"}%s
health: {address: %q}
origins: {site: {url: %q}}
`, addressOf(s.url), addressOf(s.plain), hosts, s.directory, s.trusted, s.challenge, storage, addressOf(s.health), s.origin.server.URL)
	if err := os.WriteFile(filepath.Join(s.dir, "isr.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func addressOf(url string) string { return url[strings.Index(url, "//")+2:] }

func (s *secured) start(hosts string) {
	s.t.Helper()
	s.write(hosts)
	cmd := s.command(context.Background(), s.t, "serve", "--config", "isr.yaml")
	var urls string
	s.p, urls = process.Serve(s.t, cmd, regexp.MustCompile(`msg="serving (https://[^"]+)"`))
	s.url, s.plain, _ = strings.Cut(urls, ", ")
}

func (s *secured) stop() {
	s.t.Helper()
	s.p.Terminate(s.t)
	s.p.AwaitEnd(s.t, patience)
}

func (s *secured) reload(hosts string) {
	s.t.Helper()
	s.write(hosts)
	s.output(s.t, "reload")
}

func (s *secured) await(what string, done func() bool) { s.p.Await(s.t, what, patience, done) }

// startAuthority starts Pebble, which validates at the ports of the server.
func (s *secured) startAuthority() {
	s.t.Helper()
	pebble := isrtest.Engine(s.t, "ISR_TEST_PEBBLE", "Pebble")
	port := func(url string) int {
		n, err := strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": s.directory, "managementListenAddress": s.management,
		"certificate": s.cert, "privateKey": s.key,
		"httpPort": port(s.plain), "tlsPort": port(s.url),
		"keyAlgorithm":                   "ecdsa",
		"externalAccountBindingRequired": true, "externalAccountMACKeys": map[string]string{"kid-1": hmacKey},
		"profiles":   map[string]any{"default": map[string]any{"description": "default", "validityPeriod": int(s.lifetime.Seconds())}},
		"retryAfter": map[string]int{"authz": 1, "order": 1},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.dir, "pebble.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(pebble, "-config", file, "-dnsserver", startResolver(s.t)) //nolint:gosec // the tool of ./test
	cmd.Env = []string{"PEBBLE_VA_NOSLEEP=1"}
	s.authority = process.Start(s.t, cmd)
	s.authority.Await(s.t, "its address", patience, func() bool { return s.roots() != nil })
}

// roots returns the roots of the certificates that the authority issues; nil before it serves.
func (s *secured) roots() *x509.CertPool {
	own, err := os.ReadFile(s.cert)
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(own)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	res, err := client.Get("https://" + s.management + "/roots/0")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return nil
	}
	return roots
}

// handshake returns the certificate that a client of a host gets, which is not verified.
func (s *secured) handshake(name string) (*x509.Certificate, error) {
	conn, err := tls.Dial("tcp", addressOf(s.url), &tls.Config{ServerName: name, NextProtos: []string{"h2", "http/1.1"}, InsecureSkipVerify: true}) //nolint:gosec // visit verifies
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if protocol := conn.ConnectionState().NegotiatedProtocol; protocol != "h2" {
		s.t.Errorf("the protocol is %q", protocol)
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// awaitCertificate waits for a certificate of a host, other than a previous one, that the
// process has obtained.
func (s *secured) awaitCertificate(name string, previous *x509.Certificate) (c *x509.Certificate) {
	s.t.Helper()
	s.await("the order of "+name, func() bool { return strings.Contains(s.p.Log(), `msg="obtained certificate" host=`+name) })
	s.await("the certificate of "+name, func() bool {
		var err error
		c, err = s.handshake(name)
		return err == nil && (previous == nil || c.SerialNumber.Cmp(previous.SerialNumber) != 0)
	})
	if err := c.VerifyHostname(name); err != nil {
		s.t.Error(err)
	}
	return c
}

// visit requests the page at a URL of a listener. The certificate is verified.
func (s *secured) visit(name, url string) reply {
	s.t.Helper()
	client := browsers(s.t)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{ServerName: name, RootCAs: s.roots()}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = name
	return do(client, r)
}

// startResolver serves DNS in which every name is this machine.
func startResolver(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: listener, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		answer := new(dns.Msg).SetReply(r)
		if q := r.Question[0]; q.Qtype == dns.TypeA {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(answer) // the client may be gone
	})}
	go func() { _ = server.ActivateAndServe() }() // until the end of the test
	t.Cleanup(func() { _ = server.Shutdown() })
	return listener.Addr().String()
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
