package isr

import (
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Why a response is not stored. They appear as the detail of Cache-Status.
const (
	refusedStatus      = "status"
	refusedSetCookie   = "set-cookie"
	refusedPrivate     = "private"
	refusedNoStore     = "no-store"
	refusedNoCache     = "no-cache"
	refusedVary        = "vary"
	refusedCoding      = "content-encoding"
	refusedStream      = "stream"
	refusedTooLarge    = "too-large"
	refusedNoFreshness = "no-freshness"
	refusedEmpty       = "empty"
	refusedMalformed   = "malformed"
)

const (
	// maxNegative bounds the freshness of "not found" where the response does
	// not say: a page that appears must not stay hidden.
	maxNegative = 10 * time.Second
	// maxHeaderBytes bounds the stored header fields: they live in the META row.
	maxHeaderBytes = 16 << 10
)

// A verdict is what the header of a response allows.
type verdict struct {
	refused    string // why it is not to be stored; empty if it may be
	failed     bool   // the renderer failed: the page stays as it was
	withdraws  bool   // it ends the stored copy (see withdrawn.go)
	revalidate time.Duration
	stale      time.Duration
}

// judge decides by status and header alone whether a response may be stored and
// shared, before any of its body is read and before anybody waiting for it is
// answered (RFC 9111, section 3, on the strict side).
func (p *projector) judge(status int, h http.Header, maxBody int64) verdict {
	if failedStatus(status) {
		return verdict{failed: true}
	}
	d, targeted := forSharedCache(h)
	ends := withdraws(status, h, d)
	if reason := p.refuse(status, h, d, maxBody); reason != "" {
		return verdict{refused: reason, withdraws: ends}
	}
	revalidate := p.lifetime(status, h, d, targeted)
	if revalidate <= 0 {
		return verdict{refused: refusedNoFreshness, withdraws: ends}
	}
	return verdict{revalidate: revalidate, stale: p.staleWindow(d), withdraws: ends}
}

func (p *projector) refuse(status int, h http.Header, d directives, maxBody int64) string {
	switch {
	case !storableStatus(status):
		return refusedStatus
	case hasSetCookie(h):
		return refusedSetCookie
	case d.has(malformed):
		return refusedMalformed
	case d.has("private"):
		return refusedPrivate
	case d.has("no-store"):
		return refusedNoStore
	case d.has("no-cache"):
		return refusedNoCache
	case !p.varyDeclared(h["Vary"]):
		return refusedVary
	case !readableCoding(h["Content-Encoding"]):
		return refusedCoding
	case isEndless(h.Get("Content-Type")):
		return refusedStream
	case declaredLength(h) > maxBody, headerBytes(h) > maxHeaderBytes:
		return refusedTooLarge
	}
	return ""
}

// failedStatus: answers that say nothing of the page but that it cannot be had now. An
// origin that limits this cache (429) must not be asked by each visitor instead.
func failedStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// hasSetCookie: of RFC 6265, or of RFC 2965, which it made obsolete.
func hasSetCookie(h http.Header) bool { return len(h["Set-Cookie"]) > 0 || len(h["Set-Cookie2"]) > 0 }

// storableStatus: final answers about the page itself. Partial content and
// answers about the request (401, 416, …) are for the visitor who asked.
func storableStatus(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusNoContent,
		http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// varyDeclared says whether the key holds everything that the response says it
// depends on. With all cookies ignored the renderer never sees one, so that a
// page that says it varies on them does not.
func (p *projector) varyDeclared(lines []string) bool {
	for _, line := range lines {
		for name := range splitList(line) {
			name = textproto.CanonicalMIMEHeaderKey(name)
			known := name == "Accept-Encoding" || name == "Host" || name == p.TenantHeader ||
				name == "Cookie" && p.ignoresAllCookies()
			for _, declared := range p.vary {
				known = known || name == declared
			}
			if !known {
				return false
			}
		}
	}
	return true
}

// lifetime is the freshness window: what the response grants shared caches,
// less the age it already has; else what the route grants.
func (p *projector) lifetime(status int, h http.Header, d directives, targeted bool) time.Duration {
	age := ageOf(h)
	if v, ok := d.seconds("s-maxage"); ok {
		return v - age
	}
	maxAge, ok := d.seconds("max-age")
	if ok && (targeted || d.has("public")) {
		return maxAge - age
	}
	if p.Revalidate == 0 {
		return 0
	}
	// The operator opted in: the response's ordinary statements count too.
	if ok {
		return maxAge - age
	}
	if lines := h["Expires"]; len(lines) > 0 {
		return untilExpires(h)
	}
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return p.Revalidate
	case http.StatusNotFound, http.StatusGone:
		return min(p.Revalidate, maxNegative)
	}
	return 0 // the others only if the response says so itself
}

func untilExpires(h http.Header) time.Duration {
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0 // RFC 9111, section 5.3: an invalid date is in the past
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(expires.Sub(date), maxInterval)
}

// staleWindow is the route's, or less where the response says so (RFC 5861;
// RFC 9111, section 5.2.2.2).
func (p *projector) staleWindow(d directives) time.Duration {
	if v, ok := d.seconds("stale-while-revalidate"); ok {
		return min(v, p.stale)
	}
	if d.has("must-revalidate") || d.has("proxy-revalidate") {
		return 0
	}
	return p.stale
}

// staleIfError is how long after its freshness window a page allows itself to
// be served because the origin fails (RFC 5861, section 4).
func staleIfError(h http.Header) time.Duration {
	d, _ := forSharedCache(h)
	v, _ := d.seconds("stale-if-error")
	return v
}

func isEndless(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream") || strings.HasPrefix(contentType, "multipart/x-mixed-replace")
}

func declaredLength(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func headerBytes(h http.Header) int {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// ageOf is the age that a response has already: the first that is given (RFC 9111,
// section 5.1), zero if that is no number.
func ageOf(h http.Header) time.Duration {
	const longest = 1 << 31 // seconds: what a number that is too large counts as (section 1.2.2)
	first, _, _ := strings.Cut(h.Get("Age"), ",")
	n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(n, longest)) * time.Second
}

// storedHeader is what is worth replaying of a response's header: not what
// belongs to one connection, one moment or one encoding (RFC 9111, section 3.1).
func storedHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	drop := map[string]bool{
		"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true,
		"Proxy-Authentication-Info": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
		"Age": true, "Date": true, "Cache-Status": true, "Content-Length": true, "Content-Encoding": true,
		"Etag": true, "Surrogate-Control": true,
	}
	for _, line := range h["Connection"] {
		for name := range splitList(line) {
			drop[textproto.CanonicalMIMEHeaderKey(name)] = true
		}
	}
	for name, values := range h {
		if !drop[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			out[name] = append([]string(nil), values...)
		}
	}
	return out
}
