package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// healthFlags say where orchestrators and load balancers ask whether a server is
// alive and ready, and how it ends.
type healthFlags struct {
	Health     string `placeholder:"ADDR" help:"Address of /livez and /readyz, which need no token, like 127.0.0.1:9181 (none)."`
	HealthPath string `placeholder:"PATH" help:"Path of the site's own address that answers as /readyz does, like /-/ready, without the reasons (none)."`
	Drain      *span  `placeholder:"TIME" help:"How long to serve on, not ready, when told to stop, so that load balancers notice (5s if --listen can be reached from other machines, else 0)."`
	Grace      *span  `placeholder:"TIME" help:"How long requests and renders may then take to finish (--render-timeout and 5s)."`
}

func (f *healthFlags) validate() error {
	if f.HealthPath != "" && f.HealthPath[0] != '/' {
		return usagef("--health-path %q is not a path; expected one like /-/ready", f.HealthPath)
	}
	if f.Health != "" {
		if _, _, err := net.SplitHostPort(f.Health); err != nil {
			return usagef("--health %q is not an address; expected host:port, like 127.0.0.1:9181", f.Health)
		}
	}
	return nil
}

// drainTime is how long a server that listens on at serves on when told to stop.
func (f *healthFlags) drainTime(at net.Addr) time.Duration {
	if f.Drain != nil {
		return time.Duration(*f.Drain)
	}
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return 0
	}
	return 5 * time.Second
}

// graceTime is how long work that is under way may take to finish: a visitor who
// waits for a render gets an answer, be it that the render took too long.
func (f *healthFlags) graceTime(render time.Duration) time.Duration {
	if f.Grace != nil {
		return time.Duration(*f.Grace)
	}
	return render + 5*time.Second
}

// serve answers /livez and /readyz, if that is wanted. Otherwise what it returns never
// fails and has nothing to stop.
func (f *healthFlags) serve(h *health, log *slog.Logger) (*running, error) {
	if f.Health == "" {
		return &running{server: new(http.Server)}, nil
	}
	listener, err := net.Listen("tcp", f.Health)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --health", f.Health, err)
	}
	log.Info("health on http://" + displayAddress(listener.Addr()) + "/readyz")
	return start(newServer(h.handler(), log), listener), nil
}

// health is what a server says of itself. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	status  string          // guarded by mu: while that is not "ready"
	reasons func() []string // guarded by mu: why a server that is ready is degraded; nil before it is
}

// A healthReport is the answer of /livez and /readyz.
type healthReport struct {
	Status  string   `json:"status"` // alive; ready, degraded, starting or draining
	Reasons []string `json:"reasons,omitempty"`
}

func newHealth() *health { return &health{status: "starting"} }

// ready begins the time in which the server is ready. The reasons say what it does
// without; there are none if all is well.
func (h *health) ready(reasons func() []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.reasons = "ready", reasons
}

// drain ends it.
func (h *health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.reasons = "draining", nil
}

func (h *health) report() (code int, r healthReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reasons == nil {
		why := map[string]string{"starting": "the server has not begun to serve yet", "draining": "the server was told to stop"}
		return http.StatusServiceUnavailable, healthReport{Status: h.status, Reasons: []string{why[h.status]}}
	}
	r = healthReport{Status: h.status, Reasons: h.reasons()}
	if len(r.Reasons) > 0 {
		r.Status = "degraded" // and ready: visitors are served without the store, and another server would have no other
	}
	return http.StatusOK, r
}

// handler answers /livez and /readyz.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, healthReport{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, report := h.report()
		writeHealth(w, code, report)
	})
	return mux
}

// public answers as /readyz does, but tells strangers no reasons: these have the
// addresses of stores.
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

func writeHealth(w http.ResponseWriter, code int, report healthReport) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(report) // a prober that left needs no answer
}
