package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpconn"
)

// A pool sends requests to the addresses of an origin, of which its balancer chooses one. If it fails
// before it has answered, another is tried, unless the request may have had an effect:
//
//	not connected                          ──► next address, for every method
//	connection broken, no byte of a response,
//	and a method that can be repeated      ──► next address
//	any other failure, a timeout           ──► the failure is the answer
//
// A server that is slow is not given up for another one: a slow page would then be rendered
// on all of them.
//
// Methods are safe for concurrent use.
type pool struct {
	balancer
	sticky    Sticky
	host      string // Origin.Host
	transport *httpconn.Direct
	h2c       *http.Transport // of addresses with that scheme
	health    HealthCheck
	// answered is SiteConfig.Answered for this origin.
	answered func(method string, status int, err error, took time.Duration)
	// through is SiteConfig.Send.
	through func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)
	log     *slog.Logger

	cancel context.CancelFunc
	checks sync.WaitGroup
}

func newPool(cfg Origin, secure *tls.Config, log *slog.Logger) *pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pool{transport: httpconn.NewDirect(transport(cfg, secure), dialer(cfg)), h2c: transport(cfg, nil), health: cfg.Health, log: logOf(log), cancel: cancel}
	p.answered = func(string, int, error, time.Duration) {}
	p.through = func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		return send(r)
	}
	p.h2c.Protocols = new(http.Protocols)
	p.h2c.Protocols.SetUnencryptedHTTP2(true)
	p.balance, p.slowStart, p.ejection, p.sticky = cfg.Balance, cfg.SlowStart, cfg.Ejection, cfg.Sticky
	p.host = cfg.Host
	for i, u := range cfg.URLs {
		a := &address{url: u}
		if a.weight = 1; i < len(cfg.Weights) {
			a.weight = cfg.Weights[i]
		}
		if p.sticky.Cookie != "" {
			a.id = p.sticky.id(u.String())
		}
		p.addresses = append(p.addresses, a)
	}
	if p.health.Path != "" {
		for _, a := range p.addresses {
			p.checks.Go(func() { p.check(ctx, a) })
		}
	}
	return p
}

// close ends the health checks and closes connections that are not in use.
func (p *pool) close() {
	p.cancel()
	p.checks.Wait()
	p.transport.CloseIdleConnections()
	p.h2c.CloseIdleConnections()
}

// String lists the addresses, for the log.
func (p *pool) String() string {
	var texts []string
	for _, a := range p.addresses {
		texts = append(texts, a.url.String())
	}
	return strings.Join(texts, ", ")
}

// has reports whether a host, in canonical form (see [canonical.Host]), is an address's, or the fixed one.
func (p *pool) has(host string) bool {
	if fixed, ok := canonical.Host(p.fixedHost()); ok && fixed == host {
		return true
	}
	return slices.ContainsFunc(p.addresses, func(a *address) bool {
		own, ok := canonical.Host(a.url.Host)
		return ok && own == host
	})
}

// RoundTrip implements [http.RoundTripper].
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &keptBody{inner: r.Body}
	left := p.addresses // that were not tried
	if len(left) > 1 {
		left = slices.Clone(left)
	}
	for {
		i := p.chooseFor(r, left)
		a, last := left[i], len(left) == 1
		var sent *sending
		if !last {
			sent = new(sending)
		}
		began := time.Now()
		res, err := p.send(r, a, body, sent)
		broken := err != nil && isBroken(r.Context(), err)
		p.note(r, a, res, broken, began)
		if err == nil {
			return res, nil
		}
		if last || !broken || body.used.Load() || sent.response.Load() || sent.request.Load() && !repeatable(r) {
			body.end()
			return nil, err
		}
		p.log.Warn("an address of the origin failed, trying the next", "address", a.url.String(), "error", err)
		left = slices.Delete(left, i, i+1)
	}
}

// note tells the balancer how an address has answered. res is nil if it has not.
func (p *pool) note(r *http.Request, a *address, res *http.Response, broken bool, began time.Time) {
	switch {
	case res == nil && !broken && r.Context().Err() != nil: // the visitor or the cache has given up
		return
	case res != nil && !isFailure(res.StatusCode):
		p.worked(a, began)
		return
	}
	if ejected := p.failed(a, broken); ejected > 0 && len(p.addresses) > 1 {
		p.log.Warn("an address of the origin is ejected: others get its requests for a time", "address", a.url.String(), "time", ejected.String())
	}
}

// isFailure reports whether a status says that the server has failed: 501 and 505 are about the request.
func isFailure(status int) bool {
	return status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
}

// sending is how far a request came.
type sending struct {
	request, response atomic.Bool // a byte of it was sent, or received
}

// trace returns a context for a request that notes how far it comes.
func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField:     func(string, []string) { s.request.Store(true) },
		GotFirstResponseByte: func() { s.response.Store(true) },
	})
}

// send sends a request to an address, and notes in sent, unless it is nil, how far it came.
func (p *pool) send(r *http.Request, a *address, body *keptBody, sent *sending) (*http.Response, error) {
	ctx := r.Context()
	if sent != nil {
		ctx = sent.trace(ctx)
	}
	out := r.WithContext(ctx)
	target := *r.URL
	target.Host = a.url.Host
	out.URL = &target
	out.Host = p.hostOf(r, a)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = body
	}
	a.requests.Add(1)
	a.open.Add(1)
	began := time.Now()
	res, err := p.through(out, func(r *http.Request) (*http.Response, error) { return p.roundTrip(r, a) })
	status := 0
	if err == nil {
		status = res.StatusCode
	}
	p.answered(r.Method, status, err, time.Since(began))
	if err != nil {
		a.open.Add(-1)
		return nil, err
	}
	res.Body = a.opened(res.Body)
	return res, nil
}

// roundTrip sends a request by the protocol of an address.
func (p *pool) roundTrip(r *http.Request, a *address) (*http.Response, error) {
	if a.url.Scheme == "h2c" {
		r.URL.Scheme = "http"
		return p.h2c.RoundTrip(r)
	}
	r.URL.Scheme = a.url.Scheme
	return p.transport.RoundTrip(r)
}

// repeatable reports whether a request may be sent again after a server may have received
// it: its method is idempotent (RFC 9110, section 9.2.2) and asks for no upgrade.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return r.Header["Upgrade"] == nil
	}
	return false
}

// isBroken reports whether an error shows that the server is not there, or has ended the
// connection; and not that it is slow, or that the client has gone away.
func isBroken(ctx context.Context, err error) bool {
	var timeout net.Error
	var dial *net.OpError
	switch {
	case ctx.Err() != nil, clientStalled(err):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	case errors.As(err, &timeout) && timeout.Timeout():
		return false
	}
	return true
}

// A keptBody is a request body that the transport does not close, so that another address
// can get it if none of it was read.
type keptBody struct {
	inner io.ReadCloser
	used  atomic.Bool
}

func (b *keptBody) Read(p []byte) (int, error) {
	b.used.Store(true)
	return b.inner.Read(p)
}

// Close implements io.Closer. The server closes the body of a visitor's request.
func (b *keptBody) Close() error {
	if b.used.Load() {
		return b.inner.Close()
	}
	return nil
}

func (b *keptBody) end() {
	if b.inner != nil {
		_ = b.inner.Close() // the request has failed
	}
}

// An openBody counts as an open request of its address until it is closed.
type openBody struct {
	io.ReadCloser
	address *address
	closed  atomic.Bool
}

// Close implements [io.Closer].
func (b *openBody) Close() error {
	if !b.closed.Swap(true) {
		b.address.open.Add(-1)
	}
	return b.ReadCloser.Close()
}

// An upgradedBody is the openBody of an upgraded connection.
type upgradedBody struct {
	*openBody
	io.Writer
}

// opened returns the body of a response, which ends the open request once it is closed.
func (a *address) opened(body io.ReadCloser) io.ReadCloser {
	b := &openBody{ReadCloser: body, address: a}
	if w, ok := body.(io.Writer); ok { // the connection of an upgrade
		return upgradedBody{b, w}
	}
	return b
}

// check checks an address at intervals until ctx ends.
func (p *pool) check(ctx context.Context, a *address) {
	failed := 0
	for {
		err := p.checkOnce(ctx, a)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failed = 0
			if a.down.Load() {
				p.back(a)
				a.down.Store(false)
				p.log.Info("an address of the origin is up again", "address", a.url.String())
			}
		case failed < p.health.Failures:
			if failed++; failed == p.health.Failures && !a.down.Swap(true) {
				p.log.Warn("an address of the origin is down", "address", a.url.String(), "checks", failed, "error", err)
			}
		}
		if backoff.Wait(ctx, p.health.Interval) != nil {
			return
		}
	}
}

// checkOnce sends one request. Its connection is not kept, so that it finds out whether new
// ones are accepted.
func (p *pool) checkOnce(ctx context.Context, a *address) error {
	ctx, cancel := context.WithTimeout(ctx, p.health.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url.String()+p.health.Path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "isr")
	r.Host = cmp.Or(p.fixedHost(), r.Host)
	r.Close = true
	res, err := p.roundTrip(r, a) // without following redirects
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 399 {
		return errors.New("status " + res.Status)
	}
	return nil
}
