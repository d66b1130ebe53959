package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	acmeprotocol "github.com/mholt/acmez/v3/acme"

	"github.com/facetheory/isr/internal/backoff"
)

// A Config says where certificates come from. The caller has agreed to the terms of service
// of the certificate authority.
type Config struct {
	// Directory is the URL of the authority's ACME directory.
	Directory string
	// Email is the address at which the authority reaches the operator of the site.
	Email string
	// KeyID and HMACKey, if not empty, bind the account to an external one.
	KeyID, HMACKey string
	// Roots verify the HTTPS of Directory. Nil means the roots of the system.
	Roots *x509.CertPool
	// Storage is the folder of accounts, private keys and certificates, which only its owner
	// can read. It is created if it does not exist.
	Storage string
	// TLSALPN and HTTP are the addresses of open listeners at which challenges arrive: one
	// whose handshakes follow TLSConfig, and one whose requests pass through Answer.
	// Nil disables that challenge; one of them is needed. TLS-ALPN-01 is tried first.
	TLSALPN, HTTP net.Addr
	// Logger receives certificates that were obtained, and failures. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Certificates are the certificates of a server. Methods are safe for concurrent use.
type Certificates struct {
	log       *slog.Logger
	directory string
	magic     *certmagic.Config
	memory    *certmagic.Cache
	http      *certmagic.ACMEIssuer // nil if HTTP-01 is off
	ctx       context.Context       // of everything in the background
	cancel    context.CancelFunc
	work      sync.WaitGroup

	serving sync.Mutex             // held by Serve
	hosts   atomic.Pointer[served] // replaced by Serve
}

// served are the hosts that certificates are obtained for. It is immutable.
type served struct {
	first string // for clients that name no host
	hosts map[string]*host
}

// New prepares the storage. It does not contact the authority. The caller must call Close.
func New(cfg Config) (*Certificates, error) {
	if cfg.TLSALPN == nil && cfg.HTTP == nil {
		return nil, errors.New("acme: the authority has no listener to send its challenges to")
	}
	// certmagic does the same for what it stores. A folder that exists may have other uses.
	if err := os.MkdirAll(cfg.Storage, 0o700); err != nil {
		return nil, fmt.Errorf("acme: create storage: %w", err)
	}
	c := &Certificates{log: cmp.Or(cfg.Logger, slog.Default()), directory: cfg.Directory}
	c.hosts.Store(&served{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	logger := bridge(c.log)
	c.memory = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c.magic, nil },
		Logger:           logger,
	})
	c.magic = certmagic.New(c.memory, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: cfg.Storage},
		// Not nil, or New would add an issuer. They need the config.
		Issuers:             []certmagic.Issuer{},
		LoadFirstUsableCert: true,
		OnEvent:             c.onEvent,
		ShouldEmitFunc:      func(event string) bool { return event == "cert_obtained" || event == "cert_failed" },
		Logger:              logger,
	})
	// Each challenge has an issuer of its own, because an issuer has one ListenHost. It is
	// the address of our listener, so that certmagic finds it in use and opens none itself.
	if cfg.TLSALPN != nil {
		template := cfg.issuer()
		template.DisableHTTPChallenge = true
		template.ListenHost, template.AltTLSALPNPort = hostPort(cfg.TLSALPN)
		c.magic.Issuers = append(c.magic.Issuers, certmagic.NewACMEIssuer(c.magic, template))
	}
	if cfg.HTTP != nil {
		template := cfg.issuer()
		template.DisableTLSALPNChallenge = true
		template.ListenHost, template.AltHTTPPort = hostPort(cfg.HTTP)
		c.http = certmagic.NewACMEIssuer(c.magic, template)
		c.magic.Issuers = append(c.magic.Issuers, c.http)
	}
	return c, nil
}

// issuer returns what the issuers have in common.
func (cfg Config) issuer() certmagic.ACMEIssuer {
	template := certmagic.ACMEIssuer{CA: cfg.Directory, Email: cfg.Email, Agreed: true, TrustedRoots: cfg.Roots, Logger: bridge(cmp.Or(cfg.Logger, slog.Default()))}
	if cfg.KeyID != "" {
		template.ExternalAccount = &acmeprotocol.EAB{KeyID: cfg.KeyID, MACKey: cfg.HMACKey}
	}
	return template
}

func hostPort(a net.Addr) (string, int) {
	host, port, _ := net.SplitHostPort(a.String()) // of an open listener
	n, _ := strconv.Atoi(port)
	return host, n
}

// TLSConfig returns the configuration of an HTTPS listener.
func (c *Certificates) TLSConfig() *tls.Config {
	return &tls.Config{
		GetCertificate: c.Get,
		// The challenge comes last: a client that offers others too wants one of them.
		NextProtos: []string{"h2", "http/1.1", acmez.ACMETLS1Protocol},
	}
}

// Get returns the certificate for a handshake, which may be the certificate of a challenge. Clients that
// name no host get the certificate of the first one; clients that name a host that is not served get the
// alert unrecognized_name. It is a GetCertificate of [tls.Config].
func (c *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	all := c.hosts.Load()
	asked := *hello
	asked.ServerName = strings.ToLower(cmp.Or(strings.TrimSuffix(hello.ServerName, "."), all.first))
	if all.hosts[asked.ServerName] == nil {
		return nil, nil // crypto/tls sends the alert
	}
	return c.magic.GetCertificate(&asked)
}

// Has reports whether there is a certificate for a host, a lower-case name. It is false for hosts that are not served.
func (c *Certificates) Has(name string) bool {
	h := c.hosts.Load().hosts[name]
	return h != nil && h.certified.Load()
}

// challengePath is where the authority expects the answers to HTTP-01.
const challengePath = "/.well-known/acme-challenge/"

// Answer returns a handler that answers the challenges of HTTP-01 that are being waited for.
// Other requests for their path get 404: they do not reach next.
func (c *Certificates) Answer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, challengePath) {
			next.ServeHTTP(w, r)
			return
		}
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		// Challenges of other servers are in the storage, which is not read for other hosts.
		if c.hosts.Load().hosts[strings.ToLower(host)] != nil && c.http.HandleHTTPChallenge(w, r) {
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "No such challenge.", http.StatusNotFound)
	})
}

// loadTime bounds how long Serve waits for stored certificates.
const loadTime = 5 * time.Second

// Serve replaces the hosts, which are lower-case names. It returns when the stored
// certificates of new hosts are loaded; the others are obtained in the background. Hosts that
// have no certificate yet are retried at once.
func (c *Certificates) Serve(names []string) {
	c.serving.Lock()
	defer c.serving.Unlock()
	before := c.hosts.Load().hosts
	next := &served{hosts: make(map[string]*host, len(names))}
	if len(names) > 0 {
		next.first = names[0]
	}
	loading := make(map[string]*host)
	for _, name := range names {
		h := before[name]
		if h == nil {
			h = newHost(c.ctx, name)
			loading[name] = h
			c.work.Go(func() { c.keep(h) })
		} else {
			h.retry()
		}
		next.hosts[name] = h
	}
	c.awaitLoaded(loading)
	c.hosts.Store(next)
	for name, h := range before {
		if next.hosts[name] == nil {
			h.cancel()
			<-h.ended // or it could remove what the host, served again, has obtained
		}
	}
	// Stored certificates may be due for renewal, for which maintenance would take a while.
	c.work.Go(func() {
		if err := c.memory.RenewManagedCertificates(c.ctx); err != nil {
			c.log.Error("failed to renew certificates", "error", err)
		}
	})
}

func (c *Certificates) awaitLoaded(hosts map[string]*host) {
	deadline := time.NewTimer(loadTime)
	defer deadline.Stop()
	for _, h := range hosts {
		select {
		case <-h.loaded:
		case <-deadline.C:
			c.log.Warn("stored certificates are not loaded yet: check that the folder of acme.storage answers", "hosts", len(hosts))
			return
		}
	}
}

// A Problem is why a host has no certificate, or will have none.
type Problem struct {
	Host string
	Text string // one line, which names the host
}

// Problems returns the hosts that have no certificate, or one that could not be renewed,
// sorted, each with the last error.
func (c *Certificates) Problems() (all []Problem) {
	hosts := c.hosts.Load().hosts
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if problem := hosts[name].currentProblem(); problem != "" {
			all = append(all, Problem{name, problem})
		}
	}
	return all
}

// Close stops everything in the background. It waits until ctx is done for orders to be
// abandoned, which releases their locks; the locks of a process that ends without that are stale
// after ten seconds.
func (c *Certificates) Close(ctx context.Context) error {
	c.cancel()
	c.memory.Stop()
	done := make(chan struct{})
	go func() {
		c.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("acme: orders are not abandoned yet: %w", context.Cause(ctx))
	}
}

// Bounds of the exponential backoff of a host. Authorities allow few failures: Let's Encrypt
// five an hour for a host. Retries of its production directory begin with that for staging.
const (
	firstRetry = time.Minute
	lastRetry  = time.Hour
)

// keep obtains the certificate of a host, and forgets it when the host is no longer served.
func (c *Certificates) keep(h *host) {
	defer close(h.ended)
	defer c.memory.RemoveManaged([]certmagic.SubjectIssuer{{Subject: h.name}})
	retries := 0
	ctx := context.WithValue(h.ctx, certmagic.AttemptsCtxKey, &retries)
	_, err := c.magic.CacheManagedCertificate(ctx, h.name)
	h.setLoaded(err == nil)
	for err != nil {
		if err = c.obtain(ctx, h.name); err == nil {
			break
		}
		if h.ctx.Err() != nil {
			return
		}
		wait := backoff.Jitter(backoff.Exponential(firstRetry, lastRetry, retries), rand.Uint64())
		h.setProblem("there is no certificate for " + h.name + ": " + err.Error())
		c.log.Error("failed to obtain certificate: "+advice(err)+"; reload to retry at once",
			"host", h.name, "authority", c.directory, "error", err, "retry_in", wait.Round(time.Second))
		if h.wait(wait) {
			retries = 0
		} else {
			retries++
		}
	}
	h.certified.Store(true)
	h.setProblem("")
	<-h.ctx.Done()
}

// obtain loads the stored certificate of a host, or else obtains one.
func (c *Certificates) obtain(ctx context.Context, name string) error {
	_, err := c.magic.CacheManagedCertificate(ctx, name)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("load stored certificate: %w", err)
	}
	if err := c.magic.ObtainCertSync(ctx, name); err != nil {
		return err
	}
	_, err = c.magic.CacheManagedCertificate(ctx, name)
	return err
}

// onEvent notes and logs what happens to certificates. Failures of hosts without one are
// logged by keep, which knows when it retries.
func (c *Certificates) onEvent(_ context.Context, event string, data map[string]any) error {
	name, _ := data["identifier"].(string)
	renewal, _ := data["renewal"].(bool)
	h := c.hosts.Load().hosts[name]
	switch {
	case c.ctx.Err() != nil:
	case event == "cert_obtained":
		c.log.Info("obtained certificate", "host", name, "renewal", renewal, "authority", c.directory)
		if renewal && h != nil {
			h.setProblem("")
		}
	case event == "cert_failed" && renewal:
		err, _ := data["error"].(error)
		if h != nil {
			h.setProblem(fmt.Sprintf("the certificate of %s could not be renewed: %v", name, err))
		}
		c.log.Error("failed to renew certificate, the current one stays in use: "+advice(err),
			"host", name, "authority", c.directory, "expires_in", data["remaining"], "error", err)
	}
	return nil
}

// advice says what to do about a failure.
func advice(err error) string {
	var problem acmeprotocol.Problem // what the authority says
	switch {
	case !errors.As(err, &problem):
		return "check that this server reaches the authority, and acme.directory, acme.ca_file and acme.storage"
	case problem.Type == acmeprotocol.ProblemTypeRateLimited:
		return "the authority limits how often; use its staging directory while you try things out"
	case problem.Type == acmeprotocol.ProblemTypeExternalAccountRequired:
		return "the authority requires acme.external_account"
	}
	return "check that the name resolves to this server, and that the authority reaches it on port 443 (TLS-ALPN-01) or 80 (HTTP-01)"
}
