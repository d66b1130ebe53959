package httpcache

import (
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Reasons why a response is not stored, as the detail of Cache-Status.
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
	RefusedTags        = "tags"
)

const (
	// MaxNegative is the longest freshness window of a 404 or 410 that does not state one:
	// a page that appears must not stay hidden.
	MaxNegative = 10 * time.Second
	// MaxHeaderBytes is the largest stored header, in bytes: it is part of the META row.
	MaxHeaderBytes = 16 << 10
)

// Rules are the caching rules of a route, which supplement what its responses state.
type Rules struct {
	// Revalidate is the freshness window of responses that do not state one. Zero means
	// that they are not stored; otherwise max-age without public, and Expires, count too.
	Revalidate time.Duration
	// Negative is the same for responses with a status that [HasOwnWindow]; the statuses
	// that it does not name have defaults. Zero means that they are not stored, whatever
	// they state.
	Negative map[int]time.Duration
	// Stale is the longest stale window, and the default of responses that do not state one.
	Stale time.Duration
	// MaxBody is the longest body that is stored, in bytes.
	MaxBody int64
	// InKey reports whether the cache key covers a request header, named in canonical
	// form, so that Vary may name it. Host and Accept-Encoding are always covered. Nil
	// means that no other header is.
	InKey func(name string) bool
}

// A Verdict is the result of judging a response by its status and header.
type Verdict struct {
	Refused    string        // why it must not be stored; empty if it may be
	Cause      error         // what the log says of the refusal in addition; may be nil
	Failed     bool          // the renderer failed: the stored page stays valid
	Withdraws  bool          // the stored copy must no longer be served
	Revalidate time.Duration // the freshness window
	// RouteWindow: the freshness window is that of the route, since the response states none.
	RouteWindow bool
	Stale       time.Duration // the stale window
	Tags        []string      // the purge tags; set by the caller of Judge
}

// Judge decides by status and header whether a response may be stored and shared (RFC
// 9111, section 3, interpreted strictly). It needs no part of the body, so that it can run
// before any waiting request is answered.
func (r Rules) Judge(status int, h http.Header) Verdict {
	if failedStatus(status) {
		return Verdict{Failed: true}
	}
	d, targeted := ForSharedCache(h)
	ends := withdraws(status, h, d)
	if reason := r.refuse(status, h, d); reason != "" {
		return Verdict{Refused: reason, Withdraws: ends}
	}
	revalidate, inherited := r.lifetime(status, h, d, targeted)
	if revalidate <= 0 {
		return Verdict{Refused: RefusedNoFreshness, Withdraws: ends}
	}
	return Verdict{Revalidate: revalidate, RouteWindow: inherited, Stale: r.staleWindow(d), Withdraws: ends}
}

func (r Rules) refuse(status int, h http.Header, d Directives) string {
	switch {
	case !r.storableStatus(status):
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

// failedStatus reports whether a status means that the page is temporarily unavailable.
// With 429 the origin limits this cache: passing the requests through would send it one per
// visitor instead.
func failedStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// SetsCookie reports whether a response sets a cookie (RFC 6265, and RFC 2965, which it
// made obsolete).
func SetsCookie(h http.Header) bool { return len(h["Set-Cookie"]) > 0 || len(h["Set-Cookie2"]) > 0 }

// HasOwnWindow reports whether a status is a storable answer other than a page, whose
// freshness window [Rules].Negative can set.
func HasOwnWindow(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// storableStatus reports whether a status is a final answer about the page. Partial content
// and answers about the request (401, 416, …) apply to one visitor only.
func (r Rules) storableStatus(status int) bool {
	if window, set := r.Negative[status]; set && window <= 0 {
		return false
	}
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusNoContent,
		http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// varyDeclared reports whether the key covers every header that Vary names.
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

// lifetime returns the freshness window: what the response grants to shared caches, less
// the age that it has already, or else what the route grants. inherited reports that it is the
// window of the route.
func (r Rules) lifetime(status int, h http.Header, d Directives, targeted bool) (window time.Duration, inherited bool) {
	age := Age(h)
	if v, ok := d.Seconds("s-maxage"); ok {
		return v - age, false
	}
	maxAge, ok := d.Seconds("max-age")
	if ok && (targeted || d.Has("public")) {
		return maxAge - age, false
	}
	own, set := r.Negative[status]
	if r.Revalidate == 0 && !set {
		return 0, false
	}
	// The operator opted in: ordinary max-age and Expires count too.
	if ok {
		return maxAge - age, false
	}
	if lines := h["Expires"]; len(lines) > 0 {
		return untilExpires(h) - age, false
	}
	if set {
		return own, false
	}
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return r.Revalidate, true
	case http.StatusNotFound, http.StatusGone:
		return min(r.Revalidate, MaxNegative), false
	}
	return 0, false // other statuses are stored only if the response states a lifetime
}

// untilExpires returns the time from Date to Expires, zero if either is missing or invalid.
func untilExpires(h http.Header) time.Duration {
	expires, ok := ParseDate(h.Get("Expires"))
	if !ok {
		return 0 // RFC 9111, section 5.3: an invalid date is in the past
	}
	date, ok := ParseDate(h.Get("Date"))
	if !ok {
		return 0
	}
	return min(expires.Sub(date), maxDelta)
}

// ParseDate parses a date in one of the three formats that a recipient must accept (RFC
// 9110, section 5.6.7). Unlike [http.ParseTime] it accepts them only as they are written
// there: with this case, GMT, two digits each, and the right day of the week.
func ParseDate(s string) (t time.Time, ok bool) {
	for _, format := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if t, err := time.Parse(format, s); err == nil && t.Format(format) == s {
			return t, true
		}
	}
	return time.Time{}, false
}

// staleWindow returns the route's stale window, or a shorter one that the response states
// (RFC 5861), none if the response forbids that (RFC 9111, sections 5.2.2.2 and 5.2.2.8).
// s-maxage forbids it too (section 5.2.2.10), unless the operator grants a stale window, as
// the route's is.
func (r Rules) staleWindow(d Directives) time.Duration {
	if d.forbidsStale() {
		return 0
	}
	if v, ok := d.Seconds("stale-while-revalidate"); ok {
		return min(v, r.Stale)
	}
	return r.Stale
}

// StaleIfError returns how long after its freshness window a response may be served while
// the origin fails (RFC 5861, section 4).
func StaleIfError(h http.Header) time.Duration {
	d, _ := ForSharedCache(h)
	if d.forbidsStale() {
		return 0
	}
	v, _ := d.Seconds("stale-if-error")
	return v
}

// isEndless reports whether a content type is a stream that does not end.
func isEndless(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream") || strings.HasPrefix(contentType, "multipart/x-mixed-replace")
}

// DeclaredLength returns the Content-Length of a response, -1 if it has none.
func DeclaredLength(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// headerBytes returns the length of all names and values.
func headerBytes(h http.Header) int {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// Age returns the first Age of a response (RFC 9111, section 5.1), zero if it is not a
// number. It is the response's age when it was requested: the time since counts from there.
// Date is not compared with this machine's clock (section 4.2.3 leaves that to caches that
// suspect very old ones before them): an origin with a wrong clock would not be cached.
func Age(h http.Header) time.Duration {
	const longest = 1 << 31 // seconds; larger numbers count as this (section 1.2.2)
	first, _, _ := strings.Cut(h.Get("Age"), ",")
	n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(n, longest)) * time.Second
}

// StoredHeader returns a copy of the header fields that are replayed, without those of one
// connection, one moment or one coding (RFC 9111, section 3.1).
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

// withdraws reports whether a response ends the stored copy of its page. The directives of
// an error such as 400 are about that response and not about the page.
func withdraws(status int, h http.Header, d Directives) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone,
		http.StatusUnavailableForLegalReasons,
		// Many sites redirect visitors who may not see a page to a login.
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status < http.StatusBadRequest &&
		(SetsCookie(h) || d.Has("private") || d.Has("no-store") || d.Has("no-cache") || d.Malformed())
}
