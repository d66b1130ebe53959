package gateway

import (
	"context"
	"net/http"
)

// isPurge reports whether trusted clients purge by a method, see admin.API.PurgeMethod.
func isPurge(method string) bool { return method == "PURGE" || method == "PURGEKEYS" }

// unknownClientKey is the context key of requests whose client is not known.
type unknownClientKey struct{}

// withUnknownClient marks a purging request whose client is not known: a peer that is not
// trusted has sent it on behalf of another (the request has forwarding fields), or the PROXY
// protocol names no client. Its RemoteAddr is the peer's, such as a reverse proxy on
// this machine, which the visitors of the site share. Edge calls it before it removes the
// fields; other requests are not changed.
func withUnknownClient(r *http.Request, t Trust, unnamed bool) *http.Request {
	if !isPurge(r.Method) {
		return r
	}
	if _, trusted := t.peer(r); !unnamed && (trusted || !hasForwarding(r.Header)) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), unknownClientKey{}, true))
}

func hasForwarding(h http.Header) bool {
	for _, name := range forwardingFields() {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// FromNetworks reports whether the client of a purging request that has passed an [Edge] is
// known, and in one of the networks.
func FromNetworks(r *http.Request, networks Trust) bool {
	if r.Context().Value(unknownClientKey{}) != nil {
		return false
	}
	_, within := networks.peer(r)
	return within
}
