package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
)

// An EdgeConfig configures an [Edge].
type EdgeConfig struct {
	// Hosts are the hosts to serve.
	Hosts Hosts
	// Trust are the peers whose forwarding fields are trusted; the host that they forward only
	// if it is a Trust of [Trust.WithHost].
	Trust Trust
	// Unnamed, if not nil, reports whether the PROXY protocol header of the connection
	// names no client (UNKNOWN or LOCAL). The forwarding fields may then be written by the
	// client, and are dropped.
	Unnamed func(*http.Request) bool
	// Scheme is the scheme of the listener, as [Listener] has it. Empty means http, and https for
	// requests by TLS.
	Scheme string
	// KeyScheme is the public scheme of a site of which visitors of both schemes get pages, "http" or
	// "https"; empty for a site of one scheme. Requests of the other scheme have X-Forwarded-Proto
	// with theirs, and the routes must have it in their keys. Other requests have none.
	KeyScheme string
	// HSTS is the value of Strict-Transport-Security in responses to requests that visitors have
	// sent by https (RFC 6797, section 7); empty if there is none.
	HSTS string
	// AltSvc is the value of Alt-Svc in responses over HTTP/1 and HTTP/2, which announces that the listener serves HTTP/3 (RFC 7838);
	// empty if it does not. It replaces the one of the site.
	AltSvc string
	// ErrorPages are the pages of the site's own for errors of this program; nil if there are none.
	ErrorPages ErrorPages
	// Peers, if not nil, counts where requests come from.
	Peers *Peers
	// HealthPath is the path of Health, on every host; empty if there is none.
	HealthPath string
	// Health serves HealthPath.
	Health http.Handler
	// Observe, if not nil, serves each request by a handler that it is given, and may watch
	// it: the site, or the refusal of the request. It is not called for Health.
	Observe func(http.ResponseWriter, *http.Request, http.Handler)
	// Logger receives one line for each of the first 16 hosts that are refused. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Edge returns a handler that normalizes public requests before next: r.RemoteAddr becomes
// the address of the client, from forwarding fields if the peer is trusted, and r.Host is the requested host, which
// is taken from forwarding fields only with [Trust.WithHost]. Forwarding fields and X-Request-Id of other peers are dropped. Requests for hosts that
// are not served get 421 before any I/O.
func Edge(cfg EdgeConfig, next http.Handler) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Observe == nil {
		cfg.Observe = func(w http.ResponseWriter, r *http.Request, h http.Handler) { h.ServeHTTP(w, r) }
	}
	cfg.Scheme = cmp.Or(cfg.Scheme, "http")
	return &edge{cfg: cfg, next: next, refused: &firstHosts{}}
}

type edge struct {
	cfg     EdgeConfig
	next    http.Handler
	refused *firstHosts
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = canonical.Target(r)
	if r.Method == http.MethodConnect && r.ProtoMajor == 1 {
		// Every CONNECT is refused. What follows is the data of a tunnel, if a proxy in front has not waited for
		// the response (RFC 9110, section 9.3.6), and must not be read as requests.
		w.Header().Set("Connection", "close")
	}
	if e.cfg.HealthPath != "" && r.URL.Path == e.cfg.HealthPath {
		e.cfg.Health.ServeHTTP(w, r)
		return
	}
	w = e.cfg.ErrorPages.shownTo(w)
	trust, unnamed := e.cfg.Trust, e.cfg.Unnamed != nil && e.cfg.Unnamed(r)
	if unnamed {
		trust = Trust{}
	}
	e.cfg.Peers.count(r, trust)
	r = withUnknownClient(r, trust, unnamed)
	resolved, err := trust.resolve(r)
	if err != nil {
		e.cfg.Observe(w, r, refusal{http.StatusBadRequest, "Bad request: " + err.Error() + "."})
		return
	}
	if e.cfg.KeyScheme != "" {
		keyScheme(resolved, visitorScheme(resolved, e.cfg.Scheme), e.cfg.KeyScheme)
	}
	if e.cfg.HSTS != "" && visitorScheme(resolved, e.cfg.Scheme) == "https" {
		w = withField(w, hstsHeader, e.cfg.HSTS)
	}
	if e.cfg.AltSvc != "" && r.ProtoMajor < 3 {
		w = withField(w, "Alt-Svc", e.cfg.AltSvc)
	}
	e.cfg.Observe(w, resolved, e.route(resolved))
}

var _ isr.HitHandler = (*edge)(nil)

// Lookup implements [isr.HitHandler]. The caller reports the hit to what Observe does.
func (e *edge) Lookup(r *http.Request, hit *isr.Hit) bool {
	if e.cfg.AltSvc != "" { // such a listener has TLS, whose requests are of net/http
		return false
	}
	if e.cfg.HealthPath != "" && r.URL.Path == e.cfg.HealthPath || e.cfg.Unnamed != nil && e.cfg.Unnamed(r) {
		return false
	}
	if e.cfg.Peers.due() && hasForwarding(r.Header) {
		return false // Peers needs the fields, which resolve removes
	}
	resolved, err := e.cfg.Trust.resolve(r)
	if err != nil {
		return false
	}
	if e.cfg.KeyScheme != "" {
		keyScheme(resolved, visitorScheme(resolved, e.cfg.Scheme), e.cfg.KeyScheme)
	}
	host, ok := canonical.Host(resolved.Host)
	if !ok || !e.cfg.Hosts.Serve(host) || !isr.LookupIn(e.next, resolved, hit) {
		return false
	}
	if e.cfg.HSTS != "" && visitorScheme(resolved, e.cfg.Scheme) == "https" && !addHSTS(hit, e.cfg.HSTS) {
		hit.Release()
		return false
	}
	e.cfg.Peers.count(r, e.cfg.Trust)
	return true
}

// route returns the handler of a request: the site, or a refusal.
func (e *edge) route(r *http.Request) http.Handler {
	host, ok := canonical.Host(r.Host)
	switch {
	case r.Host == "":
		return refusal{http.StatusBadRequest, "Bad request: the Host header is missing."}
	case !ok:
		return refusal{http.StatusBadRequest, "Bad request: the Host header is not a host name."}
	case !e.cfg.Hosts.Serve(host):
		return e.misdirected(host, hopOf(r.Context()))
	}
	return e.next
}

// A refusal responds to a request that does not reach the site.
type refusal struct {
	status int
	text   string
}

func (f refusal) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	isr.WriteErrorPage(w, f.status, f.text)
}

// misdirected returns the response 421 (RFC 9110, section 15.5.20). by is the hop of a trusted
// peer; nil for other peers.
func (e *edge) misdirected(host string, by *hop) refusal {
	if e.refused.isFirst(host) {
		e.cfg.Logger.Warn("refused request for unknown host; if the site has it, "+e.cfg.Hosts.Advice(host), "host", host, "served", e.cfg.Hosts.String())
		if by != nil && by.unread != "" {
			e.cfg.Logger.Warn("the trusted proxy of the refused request states another host in X-Forwarded-Host or Forwarded, which is ignored; "+
				"let the proxy pass the Host of its visitors on, or set trust_forwarded_host if it never passes a visitor's own field on",
				"host", host, "forwarded_host", canonical.Shown(by.unread))
		}
	}
	return refusal{http.StatusMisdirectedRequest, "The host " + host + " is not served here. If it should be, " + e.cfg.Hosts.Advice(host) + "."}
}

// firstHosts are the first hosts that were refused. Later ones are not logged, so that
// invented hosts do not fill the log.
type firstHosts struct {
	mu    sync.Mutex
	hosts []string // guarded by mu
}

const maxFirstHosts = 16

func (f *firstHosts) isFirst(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.hosts) == maxFirstHosts || slices.Contains(f.hosts, host) {
		return false
	}
	f.hosts = append(f.hosts, host)
	return true
}
