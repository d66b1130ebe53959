package config

import (
	"net"
	"slices"
)

// SchemeOf returns the scheme by which visitors reach a listener, "http" or "https". A listener without
// TLS has the public scheme, which a proxy in front gives it, unless another listener has TLS.
func (f *File) SchemeOf(l Listener) string {
	switch {
	case l.Encrypted():
		return "https"
	case slices.ContainsFunc(f.Listen, Listener.Encrypted):
		return "http"
	}
	return f.PublicScheme
}

// RedirectTo returns the index of the listener with TLS that visitors of listener i are redirected to;
// -1 if they are not. It is the one with port 443, else the first, of those that are reachable from where
// listener i is.
func (f *File) RedirectTo(i int) int {
	from, to := f.Listen[i], -1
	if from.Encrypted() || !from.RedirectHTTPS {
		return -1
	}
	for at, l := range f.Listen {
		if !l.Encrypted() || isLoopback(l.Address) && !isLoopback(from.Address) {
			continue
		}
		if _, port, _ := net.SplitHostPort(l.Address); port == "443" { // checked
			return at
		}
		if to < 0 {
			to = at
		}
	}
	return to
}

// BothSchemes reports whether visitors get pages by http and by https from the listeners, so that the
// scheme is in the cache keys.
func (f *File) BothSchemes() bool {
	for i, l := range f.Listen {
		if f.SchemeOf(l) != f.PublicScheme && f.RedirectTo(i) < 0 {
			return true
		}
	}
	return false
}
