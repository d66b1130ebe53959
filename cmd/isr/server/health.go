package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/handover"
)

// healthFlags configure the health checks of orchestrators and load balancers, and the
// shutdown.
type healthFlags struct {
	Health     string    `placeholder:"ADDR" help:"Address of the health checks /livez and /readyz, without a token, like 127.0.0.1:9181 (none)."`
	HealthPath string    `placeholder:"PATH" help:"Path at --listen that answers like /readyz, without the reasons, like /-/ready (none)."`
	Drain      *cli.Span `placeholder:"TIME" help:"How long to keep serving after SIGTERM while /readyz fails, so that load balancers notice (5s if --listen is reachable from other machines, else 0)."`
	Grace      *cli.Span `placeholder:"TIME" help:"How long requests and renders may take to finish at shutdown, after draining (--render-timeout plus 5s)."`
}

func (f *healthFlags) validate() error {
	if f.HealthPath != "" && f.HealthPath[0] != '/' {
		return cli.Usagef("--health-path %q is not a path; expected one like /-/ready", f.HealthPath)
	}
	if f.Health != "" {
		if _, _, err := net.SplitHostPort(f.Health); err != nil {
			return cli.Usagef("--health %q is not an address; expected host:port, like 127.0.0.1:9181", f.Health)
		}
	}
	return nil
}

// drainTime returns how long a server that listens on addresses keeps serving at shutdown.
func (f *healthFlags) drainTime(addresses ...net.Addr) time.Duration {
	if f.Drain != nil {
		return time.Duration(*f.Drain)
	}
	for _, at := range addresses {
		if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			return 5 * time.Second
		}
	}
	return 0
}

// DefaultGrace returns how long work in flight may take to finish: long enough that a request
// that waits for a render gets a response, even if the render times out.
func (f *healthFlags) graceTime(render time.Duration) time.Duration {
	if f.Grace != nil {
		return time.Duration(*f.Grace)
	}
	return render + 5*time.Second
}

// serve serves /livez and /readyz.
func (f *healthFlags) serve(ctx context.Context, sockets *handover.Sockets, h *health, failed chan error, log *slog.Logger) (*Running, error) {
	listener, _, err := sockets.Listen(ctx, f.Health)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --health", f.Health, err)
	}
	log.Info("health on http://" + displayAddress(listener.Addr()) + "/readyz")
	return startWith(newServer(h.handler(), log), listener, failed), nil
}

// health is the health of a server. It is safe for concurrent use.
type health struct {
	mu       sync.Mutex
	status   string           // guarded by mu: starting, ready or draining
	problems func() []problem // guarded by mu: why a ready server is degraded; nil unless ready
}

// A problem is why a server is degraded.
type problem struct {
	check   string // one of the checks below
	subject string // which of several; it does not change while the problem lasts
	text    string
}

// The checks of the readiness. A server that is not serving is not ready; others are degraded.
const (
	checkServing      = "serving"
	checkStores       = "stores"
	checkDownstream   = "downstream"
	checkCertificates = "certificates"
	checkQueue        = "queue"
	checkScheme       = "public_scheme"
	checkMaintenance  = "maintenance"
)

// A HealthReport is the response body of /livez and /readyz.
type HealthReport struct {
	Status  string   `json:"status"` // alive; ready, degraded, starting or draining
	Reasons []string `json:"reasons,omitempty"`
}

func newHealth() *health { return &health{status: "starting"} }

// ready marks the server ready. problems returns why it is degraded, empty if it is not.
func (h *health) ready(problems func() []problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.problems = "ready", problems
}

// drain marks the server as shutting down.
func (h *health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.problems = "draining", nil
}

func (h *health) report() (code int, r HealthReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.problems == nil {
		why := map[string]string{"starting": "the server is starting", "draining": "the server is shutting down"}
		return http.StatusServiceUnavailable, HealthReport{Status: h.status, Reasons: []string{why[h.status]}}
	}
	r.Status = h.status
	for _, p := range h.problems() {
		r.Reasons = append(r.Reasons, p.text)
	}
	if len(r.Reasons) > 0 {
		r.Status = "degraded" // still 200: visitors are served without the store, and other servers have the same one
	}
	return http.StatusOK, r
}

// checks returns whether each check passes, by its name.
func (h *health) checks() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	checks := map[string]bool{checkServing: h.problems != nil, checkStores: true, checkDownstream: true, checkCertificates: true, checkQueue: true, checkScheme: true, checkMaintenance: true}
	if h.problems != nil {
		for _, p := range h.problems() {
			checks[p.check] = false
		}
	}
	return checks
}

// handler serves /livez and /readyz.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, HealthReport{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, report := h.report()
		writeHealth(w, code, report)
	})
	return mux
}

// before serves /livez and /readyz, and leaves other paths to next.
func (h *health) before(next http.Handler) http.Handler {
	own := h.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// public answers like /readyz, but without the reasons, which contain addresses of stores.
func (h *health) public(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method not allowed: expected GET or HEAD.", http.StatusMethodNotAllowed)
		return
	}
	code, report := h.report()
	report.Reasons = nil
	writeHealth(w, code, report)
}

func writeHealth(w http.ResponseWriter, code int, report HealthReport) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(report) // the prober may be gone
}
