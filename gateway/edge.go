package gateway

import (
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/facetheory/isr/internal/canonical"
)

// An EdgeConfig says what an [Edge] lets in.
type EdgeConfig struct {
	// Hosts are those that are answered for.
	Hosts Hosts
	// Trust are the peers whose forwarding fields count.
	Trust Trust
	// Unnamed says of a request, if it is not nil, that the peer has not named the
	// client whose connection it passes on (PROXY protocol: UNKNOWN or LOCAL). The
	// forwarding fields may then be the client's own, and do not count.
	Unnamed func(*http.Request) bool
	// HealthPath is a path at which Health answers, on every host; empty for none.
	HealthPath string
	// Health answers at HealthPath.
	Health http.Handler
	// Logger is told, once for each of the first hosts that are refused, how to
	// have them served. Nil means slog.Default().
	Logger *slog.Logger
}

// Edge returns a handler for requests from the public, which it settles before
// anything else sees them: the address of the client becomes r.RemoteAddr, and the
// host it asked for r.Host; both from forwarding fields if the peer is trusted, and
// forwarding fields of others are dropped. Hosts that are not served get 421 before
// any I/O.
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
	trust := e.cfg.Trust
	if e.cfg.Unnamed != nil && e.cfg.Unnamed(r) {
		trust = Trust{}
	}
	r, err := trust.resolve(r)
	if err != nil {
		plain(w, http.StatusBadRequest, "Bad request: "+err.Error()+".")
		return
	}
	host, ok := canonical.Host(r.Host)
	switch {
	case r.Host == "":
		plain(w, http.StatusBadRequest, "Bad request: it names no host.")
	case !ok:
		plain(w, http.StatusBadRequest, "Bad request: its host is not a host name.")
	case !e.cfg.Hosts.Serve(host):
		e.misdirected(w, host)
	default:
		e.next.ServeHTTP(w, r)
	}
}

// misdirected refuses a host (RFC 9110, section 15.5.20).
func (e *edge) misdirected(w http.ResponseWriter, host string) {
	if e.refused.isFirst(host) {
		e.cfg.Logger.Warn("a host is not served; if it is one of the site's, add it with --host", "host", host, "served", e.cfg.Hosts.String())
	}
	plain(w, http.StatusMisdirectedRequest, "The host "+host+" is not served here. If it should be, start isr with --host "+host+".")
}

// firstHosts are the first hosts that were refused: an operator is told of a few,
// and strangers who invent hosts do not fill the log.
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
