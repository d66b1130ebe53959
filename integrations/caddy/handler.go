package caddy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/embedded"
)

// closeTime bounds how long a configuration that is replaced waits for its regenerations.
const closeTime = 10 * time.Second

// Interface guards.
var (
	_ caddy.Module                = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// A Handler caches the responses of the handlers behind it. What is stored, and for how long, is
// what the responses state (s-maxage, max-age, CDN-Cache-Control, …), unless Route has defaults.
type Handler struct {
	Stores
	Route

	// Memory bounds the pages in memory, in bytes. Each isr directive has its own, and a new
	// configuration begins with an empty one. Zero means isr.DefaultMemory; negative means none.
	Memory int64 `json:"memory,omitempty"`
	// Disk bounds the folder of an embedded store, in bytes (see Disk.SetBound of package embedded):
	// beyond it the least recently used pages are evicted. Of the Handlers that share a folder, the
	// smallest bound applies. At least 1 MiB; zero means a tenth of the free space, at least 1 GiB.
	Disk int64 `json:"disk,omitempty"`
	// Lease is how long a crashed server delays the regeneration of a page. Zero means 30s.
	Lease caddy.Duration `json:"lease,omitempty"`
	// Retention is how long a page without requests is kept. Zero means isr.DefaultRetention.
	Retention caddy.Duration `json:"retention,omitempty"`

	log     *slog.Logger
	shared  *shared
	cache   *isr.Cache
	handler http.Handler
	chain   atomic.Pointer[chain] // nil before the first request
}

// A chain is what is behind a Handler. It is the same for all requests that reach the Handler.
type chain struct {
	next   caddyhttp.Handler
	server *caddyhttp.Server
	tls    bool // its visitors use TLS
}

// CaddyModule implements [caddy.Module].
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.isr", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements [caddy.Provisioner]: it opens the stores, unless a Handler of this or of the
// previous configuration has them open.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.log = slog.New(zapslog.NewHandler(ctx.Logger().Core()))
	route, err := h.Route.route()
	if err != nil {
		return err
	}
	if err := h.validateDisk(); err != nil {
		return err
	}
	if h.shared, err = h.Stores.use(ctx, h.log); err != nil {
		return err
	}
	cfg := isr.Config{
		Memory: h.Memory, Lease: time.Duration(h.Lease), Retention: time.Duration(h.Retention), Collect: h.shared.collect, Full: h.shared.full, Logger: h.log,
	}
	if h.cache, err = isr.New(h.shared.meta, h.shared.bodies, cfg); err != nil {
		return errors.Join(fmt.Errorf("isr: %w", err), h.Cleanup())
	}
	h.handler = h.cache.Handler(route, http.HandlerFunc(h.render))
	h.shared.add(h.cache, h.Disk)
	ctx.Logger().Info("caching", zap.String("store", h.shared.where), zap.String("route", route.Name))
	return nil
}

func (h *Handler) validateDisk() error {
	switch {
	case h.Disk != 0 && h.Table != "":
		return errors.New("isr: disk bounds the folder of an embedded store; a bucket has lifecycle rules")
	case h.Disk != 0 && h.Disk < embedded.LeastBound:
		return fmt.Errorf("isr: disk is %d bytes; expected at least 1MiB", h.Disk)
	}
	return nil
}

// Cleanup implements [caddy.CleanerUpper]. Regenerations in progress have ten seconds to end.
func (h *Handler) Cleanup() (err error) {
	if h.cache != nil {
		h.shared.remove(h.cache)
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		err = h.cache.Close(ctx)
	}
	if h.shared != nil {
		err = errors.Join(err, h.shared.release())
	}
	return err
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.chain.Load() == nil {
		server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
		h.chain.CompareAndSwap(nil, &chain{next, server, r.TLS != nil})
	}
	h.shared.requests.Add(1)
	h.handler.ServeHTTP(w, withoutEmptyBody(r))
	return nil
}

// withoutEmptyBody returns a request that states that it has no body if it has none: over HTTP/3 that is
// known only when the stream has ended, and a page is not looked up for requests with a body.
func withoutEmptyBody(r *http.Request) *http.Request {
	if r.ProtoMajor != 3 || r.ContentLength >= 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return r
	}
	out, first := r.Clone(r.Context()), make([]byte, 1)
	n, err := io.ReadFull(r.Body, first)
	if errors.Is(err, io.EOF) {
		out.Body, out.ContentLength = http.NoBody, 0
		return out
	}
	out.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first[:n]), r.Body), r.Body}
	return out
}

// render calls the handlers behind this one: for a request that passes through, or for a page.
func (h *Handler) render(w http.ResponseWriter, r *http.Request) {
	c := h.chain.Load()
	if c == nil { // a request to regenerate a page, before any visitor came
		http.Error(w, "no request has reached this server yet", http.StatusServiceUnavailable)
		return
	}
	if r.Context().Value(caddyhttp.ServerCtxKey) == nil {
		// A page is rendered for all, from no address.
		r.RemoteAddr = "0.0.0.0:0"
		if c.tls {
			r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: r.Host}
		}
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, c.server)
	}
	tracked := &tracker{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	err := c.next.ServeHTTP(tracked, r)
	if err == nil {
		return
	}
	if tracked.begun {
		panic(http.ErrAbortHandler) // the response is incomplete
	}
	status := http.StatusInternalServerError
	var known caddyhttp.HandlerError
	if errors.As(err, &known) && known.StatusCode != 0 {
		status = known.StatusCode
	}
	h.log.Warn("a handler failed", "host", r.Host, "path", r.URL.Path, "status", status, "error", err)
	isr.WriteErrorPage(w, status, http.StatusText(status)+".")
}

// A tracker knows whether a response has begun.
type tracker struct {
	*caddyhttp.ResponseWriterWrapper
	begun bool
}

func (t *tracker) WriteHeader(status int) {
	t.begun = t.begun || status >= http.StatusOK
	t.ResponseWriterWrapper.WriteHeader(status)
}

func (t *tracker) Write(p []byte) (int, error) {
	t.begun = true
	return t.ResponseWriterWrapper.Write(p)
}
