package gateway

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// A Listener has what the requests of one listener have in common.
type Listener struct {
	// PublicScheme is the scheme of the public URL of the site, "http" or "https". Renders have it
	// as X-Forwarded-Proto. Empty means http.
	PublicScheme string
	// Scheme is the scheme by which visitors send the requests of this listener, "http" or "https".
	// Requests that pass through have it as X-Forwarded-Proto, unless a trusted peer states another.
	// Empty means PublicScheme, for a listener behind a TLS terminator that does not forward the scheme.
	Scheme string
	// ClientTimeout bounds the wait for the next bytes of a request body. Zero means
	// DefaultClientTimeout.
	ClientTimeout time.Duration
	// StreamWindow is how many bytes of a request body the server buffers for each HTTP/2 stream:
	// [http.HTTP2Config.MaxReceiveBufferPerStream], in bytes. They are part of the budget of buffers. Zero means that
	// none are counted.
	StreamWindow int64
}

func (l Listener) withDefaults() Listener {
	l.PublicScheme = cmp.Or(l.PublicScheme, "http")
	l.Scheme = cmp.Or(l.Scheme, l.PublicScheme)
	l.ClientTimeout = cmp.Or(l.ClientTimeout, DefaultClientTimeout)
	return l
}

// listenerKey is the context key of a *Listener.
type listenerKey struct{}

// Context returns a context for the requests of the listener, such as the BaseContext of an
// [http.Server].
func (l Listener) Context(ctx context.Context) context.Context {
	l = l.withDefaults()
	return context.WithValue(ctx, listenerKey{}, &l)
}

// listenerOf returns the listener of a request.
func (p *proxy) listenerOf(r *http.Request) *Listener {
	if l, ok := r.Context().Value(listenerKey{}).(*Listener); ok {
		return l
	}
	return &p.listener
}
