package gateway

import (
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/facetheory/isr/internal/canonical"
)

// An EdgeConfig configures an [Edge].
type EdgeConfig struct {
	// Hosts are the hosts to serve.
	Hosts Hosts
	// Trust are the peers whose forwarding fields are trusted.
	Trust Trust
	// Unnamed, if not nil, reports whether the PROXY protocol header of the connection
	// names no client (UNKNOWN or LOCAL). The forwarding fields may then be written by the
	// client, and are dropped.
	Unnamed func(*http.Request) bool
	// HealthPath is the path of Health, on every host; empty for none.
	HealthPath string
	// Health serves HealthPath.
	Health http.Handler
	// Logger receives one line for each of the first 16 hosts that are refused. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Edge returns a handler that normalizes public requests before next: r.RemoteAddr becomes
// the address of the client, and r.Host the requested host, both from forwarding fields if
// the peer is trusted. Forwarding fields of other peers are dropped. Requests for hosts that
// are not served get 421 before any I/O.
func Edge(cfg EdgeConfig, next http.Handler) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &edge{cfg: cfg, next: next, refused: &firstHosts{}}
}

type edge struct {
	cfg     EdgeConfig
	next    http.Handler
	refused *firstHosts
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.cfg.HealthPath != "" && r.URL.Path == e.cfg.HealthPath {
		e.cfg.Health.ServeHTTP(w, r)
		return
	}
	trust, unnamed := e.cfg.Trust, e.cfg.Unnamed != nil && e.cfg.Unnamed(r)
	if unnamed {
		trust = Trust{}
	}
	r, err := trust.resolve(withUnknownClient(r, trust, unnamed))
	if err != nil {
		plain(w, http.StatusBadRequest, "Bad request: "+err.Error()+".")
		return
	}
	host, ok := canonical.Host(r.Host)
	switch {
	case r.Host == "":
		plain(w, http.StatusBadRequest, "Bad request: the Host header is missing.")
	case !ok:
		plain(w, http.StatusBadRequest, "Bad request: the Host header is not a host name.")
	case !e.cfg.Hosts.Serve(host):
		e.misdirected(w, host)
	default:
		e.next.ServeHTTP(w, r)
	}
}

// misdirected responds with 421 (RFC 9110, section 15.5.20).
func (e *edge) misdirected(w http.ResponseWriter, host string) {
	if e.refused.isFirst(host) {
		e.cfg.Logger.Warn("refused request for unknown host; if the site has it, "+e.cfg.Hosts.Advice(host), "host", host, "served", e.cfg.Hosts.String())
	}
	plain(w, http.StatusMisdirectedRequest, "The host "+host+" is not served here. If it should be, "+e.cfg.Hosts.Advice(host)+".")
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
