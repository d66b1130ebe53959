package isr

import (
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
)

// A DownstreamControl is what fresh pages of a route, with a status below 400, tell the
// caches behind this one, which are the visitors' browsers and proxies between. It replaces
// Cache-Control, CDN-Cache-Control and Expires of the renderer, which decide for this cache
// alone. Lifetimes count from when a page is served, so these pages have "Age: 0".
//
// Pages that are not fresh get "max-age=0, must-revalidate" instead, so that no cache keeps
// one for longer than this one, and pinned pages a few seconds. Responses that pass through
// are not changed.
//
// A cache that purges do not reach, such as a browser, serves its copy for the whole
// lifetime after a purge.
type DownstreamControl struct {
	// CacheControl is the field Cache-Control, such as "max-age=60" or "no-cache". Empty:
	// the page has the renderer's fields.
	CacheControl string
	// CDN is the field CDN-Cache-Control (RFC 9213), for caches that purges do reach.
	// Empty: the page has none. It needs CacheControl.
	CDN string
}

// Bounds of the response headers of a route.
const (
	maxResponseRules = 64
	maxResponseBytes = 8 << 10
	maxControlBytes  = 256
)

func (rt Route) validateResponse() error {
	var errs []error
	if n := len(rt.SetHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d fields (got %d)", maxResponseRules, n))
	}
	if n := len(rt.RemoveHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("RemoveHeader", "must have at most %d names (got %d)", maxResponseRules, n))
	}
	bytes := 0
	for name, values := range rt.SetHeader {
		errs = append(errs, validateRule("SetHeader", name))
		if len(values) == 0 {
			errs = append(errs, configErrorf("SetHeader", "must have a value for %q; use RemoveHeader to remove it", name))
		}
		for _, v := range values {
			bytes += len(name) + len(v)
			if !validFieldValue(v) {
				errs = append(errs, configErrorf("SetHeader", "must not have control characters or outer spaces in values (got %.100q for %q)", v, name))
			}
		}
	}
	for _, name := range rt.RemoveHeader {
		bytes += len(name)
		errs = append(errs, validateRule("RemoveHeader", name))
		if containsHeader(slices.Collect(maps.Keys(rt.SetHeader)), textproto.CanonicalMIMEHeaderKey(name)) {
			errs = append(errs, configErrorf("RemoveHeader", "must not contain %q, which SetHeader sets", name))
		}
	}
	if bytes > maxResponseBytes {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d bytes in all, with RemoveHeader (got %d)", maxResponseBytes, bytes))
	}
	return errors.Join(append(errs, rt.Downstream.validate())...)
}

func validateRule(field, name string) error {
	switch {
	case !validHeaderName(name):
		return configErrorf(field, "must contain names of header fields (got %q)", name)
	case ownedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		return configErrorf(field, "must not contain %q, which the cache or the connection decides", name)
	}
	return nil
}

// ownedHeader reports whether a field describes the message, its body, its freshness or a
// cookie, so that no route may change it.
func ownedHeader(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Etag", "Last-Modified", "Date", "Location",
		"Cache-Control", "Cdn-Cache-Control", "Surrogate-Control", "Pragma", "Expires", "Age", "Vary", "Cache-Status", "Retry-After",
		"Set-Cookie", "Set-Cookie2", "Www-Authenticate":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, http.TrailerPrefix) || strings.HasPrefix(name, "Isr-")
}

// validFieldValue reports whether a text may be sent as the value of a header field (RFC
// 9110, section 5.5).
func validFieldValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return strings.Trim(v, " \t") == v
}

func (d DownstreamControl) validate() error {
	if d.CDN != "" && d.CacheControl == "" {
		return configErrorf("Downstream", "must have CacheControl if it has CDN")
	}
	var errs []error
	for _, v := range []string{d.CacheControl, d.CDN} {
		if v != "" && (!validFieldValue(v) || len(v) > maxControlBytes || httpcache.ParseDirectives([]string{v}).Malformed()) {
			errs = append(errs, configErrorf("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, v))
		}
	}
	return errors.Join(errs...)
}

// A presentation is how a route presents responses to visitors. It is applied when they are
// served, so that it does not depend on what is stored. The lists are shared by all
// responses: nothing may append to them.
type presentation struct {
	set    []headerField
	remove []string // canonical names
	// control, if not nil, is the Cache-Control of fresh pages, outdated that of others.
	control, outdated, cdn []string
	age                    []string // of pages with control
	identity               bool     // no content coding
}

func newPresentation(rt Route) *presentation {
	a := &presentation{identity: rt.NoCompression}
	for name, values := range rt.SetHeader {
		a.set = append(a.set, headerField{textproto.CanonicalMIMEHeaderKey(name), slices.Clip(slices.Clone(values))})
	}
	for _, name := range rt.RemoveHeader {
		a.remove = append(a.remove, textproto.CanonicalMIMEHeaderKey(name))
	}
	if rt.Downstream.CacheControl != "" {
		a.control, a.outdated, a.age = []string{rt.Downstream.CacheControl}, []string{purgedControl}, []string{"0"}
	}
	if rt.Downstream.CDN != "" {
		a.cdn = []string{rt.Downstream.CDN}
	}
	return a
}

// compress returns a body in gzip; nil if that saves nothing, or the route does not want it.
func (a *presentation) compress(contentType string, body []byte) []byte {
	if a.identity {
		return nil
	}
	return httpcache.Gzip(contentType, body)
}

// fields sets and removes the fields of the route.
func (a *presentation) fields(h http.Header) {
	for _, name := range a.remove {
		delete(h, name)
	}
	for _, f := range a.set {
		h[f.name] = f.values
	}
}

// controls sets the fields of a page for downstream caches. own, if not nil, is what this
// cache tells them of a page that is pinned or purged, whatever the route says.
func (a *presentation) controls(h http.Header, status int, fresh bool, own []string) {
	control := own
	if control == nil && a.control != nil && status < http.StatusBadRequest {
		control = a.outdated
		if fresh {
			control = a.control
		}
	}
	if control == nil {
		return
	}
	h["Cache-Control"] = control
	delete(h, "Cdn-Cache-Control")
	delete(h, "Expires")
	if own == nil && fresh {
		h["Age"] = a.age
		if a.cdn != nil {
			h["Cdn-Cache-Control"] = a.cdn
		}
	}
}
