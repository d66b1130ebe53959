package gateway

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/facetheory/isr"
)

// visitorScheme returns the scheme by which a visitor has sent a request, "http" or "https": the one
// that a trusted peer states, else the scheme of the listener. It returns otherwise if the request
// has neither.
func visitorScheme(r *http.Request, otherwise string) string {
	if h := hopOf(r.Context()); h != nil && h.scheme != "" {
		return h.scheme
	}
	if r.TLS != nil {
		return "https"
	}
	if l, ok := r.Context().Value(listenerKey{}).(*Listener); ok {
		return l.Scheme
	}
	return otherwise
}

// A RedirectConfig configures [RedirectHTTPS].
type RedirectConfig struct {
	// Port is the port of the listener without TLS, and TLSPort the port of the one with TLS.
	Port, TLSPort int
	// Unnamed is the one of [EdgeConfig].
	Unnamed func(*http.Request) bool
	// Certified reports whether the listener with TLS has a certificate for a host, in lower case and without a port. Visitors
	// of other hosts are not redirected, since they could not connect. Nil: it has one for all hosts. It is called
	// concurrently.
	Certified func(host string) bool
}

// RedirectHTTPS returns a handler that redirects the requests which visitors have sent without TLS
// to the same URL with https: GET and HEAD by 301, others by 308, which keeps method and body. All
// other requests are passed to next. They are:
//
//   - requests that a trusted peer has received by https,
//   - requests of a trusted peer itself, without a forwarded client, such as health checks of a load
//     balancer, and requests of connections that name no client (see [EdgeConfig.Unnamed]),
//   - challenges of ACME (RFC 8555, section 8.3), PURGE and CONNECT,
//   - requests for a host without a certificate, such as one that is still being obtained.
//
// Requests must have passed an [Edge], which has checked the host.
//
// A visitor that has named the port of the listener, or the port 80 if that is the listener's, is
// redirected to the port of the listener with TLS. Other visitors reach the listener by a port that
// something in front maps to it, and are redirected to the port 443, which it then maps, too.
func RedirectHTTPS(cfg RedirectConfig, next http.Handler) http.Handler {
	return &redirectHTTPS{cfg, next}
}

type redirectHTTPS struct {
	cfg  RedirectConfig
	next http.Handler
}

var _ isr.HitHandler = (*redirectHTTPS)(nil)

func (h *redirectHTTPS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.applies(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	// A cache in front that does not have the scheme in its key would redirect visitors of https, too.
	w.Header().Set("Cache-Control", "no-store")
	status := http.StatusPermanentRedirect
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusMovedPermanently
	}
	http.Redirect(w, r, "https://"+h.authority(r.Host)+targetOf(r), status)
}

// targetOf returns path and query of a request as the visitor has sent them, except in absolute-form.
func targetOf(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") && !strings.Contains(r.RequestURI, "#") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// Lookup implements [isr.HitHandler].
func (h *redirectHTTPS) Lookup(r *http.Request, hit *isr.Hit) bool {
	return !h.applies(r) && isr.LookupIn(h.next, r, hit)
}

// challengePath begins the paths of HTTP-01, also of a client of ACME other than this program.
const challengePath = "/.well-known/acme-challenge/"

// applies reports whether a request is redirected.
func (h *redirectHTTPS) applies(r *http.Request) bool {
	if isPurge(r.Method) || r.Method == http.MethodConnect || strings.HasPrefix(r.URL.Path, challengePath) {
		return false
	}
	if by := hopOf(r.Context()); by != nil && by.scheme == "" && !by.forwards {
		return false
	}
	return visitorScheme(r, "http") == "http" && (h.cfg.Unnamed == nil || !h.cfg.Unnamed(r)) && h.certified(r.Host)
}

// certified reports whether visitors of a host can connect by TLS.
func (h *redirectHTTPS) certified(requested string) bool {
	if h.cfg.Certified == nil {
		return true
	}
	host, _ := splitAuthority(requested)
	return h.cfg.Certified(strings.ToLower(strings.TrimSuffix(host, ".")))
}

// splitAuthority returns the host and the port that a request for http names.
func splitAuthority(requested string) (host, port string) {
	host, port, err := net.SplitHostPort(requested)
	if err != nil {
		return strings.Trim(requested, "[]"), "80"
	}
	return host, port
}

// authority returns the host, and a port unless it is 443, of the URL that a request for a host is
// redirected to.
func (h *redirectHTTPS) authority(requested string) string {
	host, port := splitAuthority(requested)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if h.cfg.TLSPort == 443 || port != strconv.Itoa(h.cfg.Port) {
		return host
	}
	return host + ":" + strconv.Itoa(h.cfg.TLSPort)
}

// keyScheme states the scheme of a request in X-Forwarded-Proto if it is not the public one, for
// routes that have this header in their keys. Requests of the public scheme have none: regenerations
// and explanations without headers are about their pages.
func keyScheme(r *http.Request, scheme, public string) {
	delete(r.Header, "X-Forwarded-Proto")
	if scheme != public {
		r.Header["X-Forwarded-Proto"] = []string{scheme}
	}
}

const hstsHeader = "Strict-Transport-Security"

// withField returns a writer that sets a field of the response, such as Strict-Transport-Security (RFC 6797, section 6.1).
func withField(w http.ResponseWriter, name, value string) http.ResponseWriter {
	return &fieldWriter{ResponseWriter: w, name: name, value: value}
}

// A fieldWriter sets the field when the header is written, so that it replaces the field of the origin or
// of a page.
type fieldWriter struct {
	http.ResponseWriter
	name, value string
}

func (w *fieldWriter) WriteHeader(status int) {
	w.set()
	w.ResponseWriter.WriteHeader(status)
}

func (w *fieldWriter) Write(p []byte) (int, error) {
	w.set()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (w *fieldWriter) Flush() {
	w.set()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a writer that cannot flush sends the response at its end
}

func (w *fieldWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *fieldWriter) set() { w.Header()[w.name] = []string{w.value} }

// addHSTS adds Strict-Transport-Security to a hit. It returns false if the page has the field.
func addHSTS(hit *isr.Hit, value string) bool {
	if bytes.Contains(hit.Header, []byte("\n"+hstsHeader+":")) {
		return false
	}
	hit.AddField(hstsHeader, value)
	return true
}
