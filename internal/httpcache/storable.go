package httpcache

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
	RefusedStatus      = "status"
	RefusedSetCookie   = "set-cookie"
	RefusedPrivate     = "private"
	RefusedNoStore     = "no-store"
	RefusedNoCache     = "no-cache"
	RefusedVary        = "vary"
	RefusedCoding      = "content-encoding"
	RefusedStream      = "stream"
	RefusedTooLarge    = "too-large"
	RefusedNoFreshness = "no-freshness"
	RefusedEmpty       = "empty"
	RefusedMalformed   = "malformed"
)

const (
	// MaxNegative bounds the freshness of "not found" where the response does
	// not say: a page that appears must not stay hidden.
	MaxNegative = 10 * time.Second
	// MaxHeaderBytes bounds the stored header fields: they live in the META row.
	MaxHeaderBytes = 16 << 10
)

// Rules are what a route adds to the statements of its responses.
type Rules struct {
	// Revalidate is the freshness window of responses that do not state one. Zero: they
	// are not stored. Otherwise plain max-age and Expires count as well.
	Revalidate time.Duration
	// Stale is the longest stale window, and the one of responses that do not state one.
	Stale time.Duration
	// MaxBody is the longest body that is stored, in bytes.
	MaxBody int64
	// InKey reports whether the cache key covers a request header, named in canonical
	// form, so that Vary may name it. Host and Accept-Encoding are always covered. Nil
	// means that no other header is.
	InKey func(name string) bool
}

// A verdict is what the header of a response allows.
type Verdict struct {
	Refused    string // why it is not to be stored; empty if it may be
	Failed     bool   // the renderer failed: the page stays as it was
	Withdraws  bool   // it ends the stored copy (see withdrawn.go)
	Revalidate time.Duration
	Stale      time.Duration
}

// judge decides by status and header alone whether a response may be stored and
// shared, before any of its body is read and before anybody waiting for it is
// answered (RFC 9111, section 3, on the strict side).
func (r Rules) Judge(status int, h http.Header) Verdict {
	if failedStatus(status) {
		return Verdict{Failed: true}
	}
	d, targeted := ForSharedCache(h)
	ends := withdraws(status, h, d)
	if reason := r.refuse(status, h, d); reason != "" {
		return Verdict{Refused: reason, Withdraws: ends}
	}
	revalidate := r.lifetime(status, h, d, targeted)
	if revalidate <= 0 {
		return Verdict{Refused: RefusedNoFreshness, Withdraws: ends}
	}
	return Verdict{Revalidate: revalidate, Stale: r.staleWindow(d), Withdraws: ends}
}

func (r Rules) refuse(status int, h http.Header, d Directives) string {
	switch {
	case !storableStatus(status):
		return RefusedStatus
	case SetsCookie(h):
		return RefusedSetCookie
	case d.Malformed():
		return RefusedMalformed
	case d.Has("private"):
		return RefusedPrivate
	case d.Has("no-store"):
		return RefusedNoStore
	case d.Has("no-cache"):
		return RefusedNoCache
	case !r.varyDeclared(h["Vary"]):
		return RefusedVary
	case !Decodable(h["Content-Encoding"]):
		return RefusedCoding
	case isEndless(h.Get("Content-Type")):
		return RefusedStream
	case DeclaredLength(h) > r.MaxBody, headerBytes(h) > MaxHeaderBytes:
		return RefusedTooLarge
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

// SetsCookie: of RFC 6265, or of RFC 2965, which it made obsolete.
func SetsCookie(h http.Header) bool { return len(h["Set-Cookie"]) > 0 || len(h["Set-Cookie2"]) > 0 }

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
func (r Rules) varyDeclared(lines []string) bool {
	for _, line := range lines {
		for name := range Members(line) {
			name = textproto.CanonicalMIMEHeaderKey(name)
			if name != "Accept-Encoding" && name != "Host" && (r.InKey == nil || !r.InKey(name)) {
				return false
			}
		}
	}
	return true
}

// lifetime is the freshness window: what the response grants shared caches,
// less the age it already has; else what the route grants.
func (r Rules) lifetime(status int, h http.Header, d Directives, targeted bool) time.Duration {
	age := ageOf(h)
	if v, ok := d.Seconds("s-maxage"); ok {
		return v - age
	}
	maxAge, ok := d.Seconds("max-age")
	if ok && (targeted || d.Has("public")) {
		return maxAge - age
	}
	if r.Revalidate == 0 {
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
		return r.Revalidate
	case http.StatusNotFound, http.StatusGone:
		return min(r.Revalidate, MaxNegative)
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
	return min(expires.Sub(date), maxDelta)
}

// staleWindow is the route's, or less where the response says so (RFC 5861;
// RFC 9111, section 5.2.2.2).
func (r Rules) staleWindow(d Directives) time.Duration {
	if v, ok := d.Seconds("stale-while-revalidate"); ok {
		return min(v, r.Stale)
	}
	if d.Has("must-revalidate") || d.Has("proxy-revalidate") {
		return 0
	}
	return r.Stale
}

// StaleIfError is how long after its freshness window a page allows itself to
// be served because the origin fails (RFC 5861, section 4).
func StaleIfError(h http.Header) time.Duration {
	d, _ := ForSharedCache(h)
	v, _ := d.Seconds("stale-if-error")
	return v
}

func isEndless(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream") || strings.HasPrefix(contentType, "multipart/x-mixed-replace")
}

func DeclaredLength(h http.Header) int64 {
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

// StoredHeader is what is worth replaying of a response's header: not what
// belongs to one connection, one moment or one encoding (RFC 9111, section 3.1).
func StoredHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	drop := map[string]bool{
		"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true,
		"Proxy-Authentication-Info": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
		"Age": true, "Date": true, "Cache-Status": true, "Content-Length": true, "Content-Encoding": true,
		"Etag": true, "Surrogate-Control": true,
	}
	for _, line := range h["Connection"] {
		for name := range Members(line) {
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

// withdraws says whether a response ends the stored copy of its page. What an error
// such as 400 says of caching is about that answer, and not about the page.
func withdraws(status int, h http.Header, d Directives) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone,
		http.StatusUnavailableForLegalReasons,
		// Many sites send those who may not see a page to their login.
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status < http.StatusBadRequest &&
		(SetsCookie(h) || d.Has("private") || d.Has("no-store") || d.Has("no-cache") || d.Malformed())
}
