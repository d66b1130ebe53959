package httpcache

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"slices"
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
	// RefusedNoMemory: there is no memory left to buffer the response. Judge never returns it.
	RefusedNoMemory  = "no-memory"
	RefusedEmpty     = "empty"
	RefusedMalformed = "malformed"
	RefusedTags      = "tags"
	RefusedHeader    = "header-too-large"
	RefusedOld       = "too-old"
	// RefusedSelfRedirect: a redirect to the cache key of the request. Judge does not know keys;
	// its callers find that.
	RefusedSelfRedirect = "self-redirect"
)

const (
	// MaxNegative is the longest freshness window of a 404 or 410 that does not state one:
	// a page that appears must not stay hidden.
	MaxNegative = 10 * time.Second
	// DefaultMaxHeader is the default of [Rules].MaxHeader.
	DefaultMaxHeader = 64 << 10
)

// Rules are the caching rules of a route, which supplement what its responses state.
type Rules struct {
	// Revalidate is the freshness window of responses that do not state one. Zero means
	// that they are not stored.
	Revalidate time.Duration
	// Strict: max-age without public, and Expires, count only with a Revalidate.
	Strict bool
	// Statuses are stored in addition to those that are stored anyway, if the response states
	// how long it is fresh (see [MayBeStored]).
	Statuses []int
	// Negative is the same for responses with a status that [HasOwnWindow]; the statuses
	// that it does not name have defaults. Zero means that they are not stored, whatever
	// they state.
	Negative map[int]time.Duration
	// Stale is the longest stale window, and the default of responses that do not state one.
	// Zero: only what a response states counts. Negative: there is none.
	Stale time.Duration
	// StaleIfError is the same for the time that a response may be served while the origin
	// fails.
	StaleIfError time.Duration
	// KeepStale gives defaults to responses whose freshness window is Revalidate, where Stale or StaleIfError is zero
	// and the response states none: a stale window as long as the freshness window, and KeptIfError.
	KeepStale bool
	// MaxBody is the longest body that is stored, in bytes.
	MaxBody int64
	// MaxHeader is the size of the largest header that is stored, in bytes, where each field counts
	// for its name, its value and 32 bytes (RFC 9113, section 6.5.2). Zero means
	// DefaultMaxHeader.
	MaxHeader int64
	// Requested is when the response was requested, for its apparent age, and for Expires
	// without Date. Zero: unknown.
	Requested time.Time
	// InKey reports whether the cache key covers a request header, named in canonical
	// form, so that Vary may name it. Host and Accept-Encoding are always covered. Nil
	// means that no other header is.
	InKey func(name string) bool
}

// A Verdict is the result of judging a response by its status and header.
type Verdict struct {
	Refused    string        // why it must not be stored; empty if it may be
	Cause      error         // the log's addition to the refusal; may be nil
	Failed     bool          // the renderer failed: the stored page stays valid
	Withdraws  bool          // the stored copy must no longer be served
	Revalidate time.Duration // the freshness window
	// RouteWindow: the freshness window is the route's, since the response states none.
	RouteWindow bool
	Stale       time.Duration // the stale window
	// StaleAsFresh: the stale window is as long as the freshness window (see [Rules].KeepStale).
	StaleAsFresh bool
	Tags         []string // the purge tags; set by the caller of Judge
}

// Judge decides by status and header whether a response may be stored and shared (RFC
// 9111, section 3, interpreted strictly). It needs no part of the body, so that it can run
// before any waiting request is answered.
func (r Rules) Judge(status int, h http.Header) Verdict {
	d, targeted := ForSharedCache(h)
	if failedStatus(status) && !(slices.Contains(r.Statuses, status) && r.refuse(status, h, d) == "" && r.statesLifetime(h, d, targeted)) {
		return Verdict{Failed: true}
	}
	if d.Has("must-understand") && understood(status) {
		delete(d, "no-store") // RFC 9111, section 5.2.2.3
	}
	ends := withdraws(status, h, d)
	if reason := r.refuse(status, h, d); reason != "" {
		return Verdict{Refused: reason, Cause: r.cause(reason, h), Withdraws: ends}
	}
	revalidate, inherited := r.lifetime(status, h, d, targeted)
	if window := r.outlived(status, h, d, targeted); revalidate <= 0 && window > 0 {
		return Verdict{Refused: RefusedOld, Cause: r.age(h, window), Withdraws: ends}
	}
	if revalidate <= 0 {
		return Verdict{Refused: RefusedNoFreshness, Withdraws: ends}
	}
	v := Verdict{Revalidate: revalidate, RouteWindow: inherited, Withdraws: ends}
	missing := time.Duration(0)
	if inherited && r.KeepStale {
		missing = revalidate
	}
	v.Stale = staleFor(d, "stale-while-revalidate", r.Stale, missing, r.Stale > 0)
	_, stated := d.Seconds("stale-while-revalidate")
	v.StaleAsFresh = missing > 0 && r.Stale == 0 && v.Stale > 0 && !stated
	return v
}

func (r Rules) refuse(status int, h http.Header, d Directives) string {
	switch {
	case !r.storableStatus(status), d.Has("must-understand") && !understood(status):
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
	case IsEndless(h.Get("Content-Type")):
		return RefusedStream
	case DeclaredLength(h) > r.MaxBody:
		return RefusedTooLarge
	case HeaderSize(h) > r.maxHeader():
		return RefusedHeader
	}
	return ""
}

func (r Rules) maxHeader() int64 { return cmp.Or(r.MaxHeader, DefaultMaxHeader) }

// cause returns the log's addition to a refusal; nil if there is none.
func (r Rules) cause(refused string, h http.Header) error {
	if refused != RefusedHeader {
		return nil
	}
	return fmt.Errorf("the header has %d bytes, at most %d are stored (max_header)", HeaderSize(h), r.maxHeader())
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
	return slices.Contains(r.Statuses, status)
}

// MayBeStored reports whether Rules.Statuses may name a status: a final one (200 to 599) that
// means the same for all visitors. 206 and 416 are about a range, 304 and 412 about a condition,
// and renders have neither; 401, 407 and 511 ask one client for credentials.
func MayBeStored(status int) bool {
	switch status {
	case http.StatusPartialContent, http.StatusNotModified, http.StatusUnauthorized, http.StatusProxyAuthRequired,
		http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable, http.StatusNetworkAuthenticationRequired:
		return false
	}
	return status >= 200 && status <= 599
}

// understood reports whether this cache implements what the specification of a status
// requires of caches (RFC 9111, section 3): the statuses of RFC 9110 except 206 and 304.
func understood(status int) bool {
	return MayBeStored(status) && http.StatusText(status) != ""
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
	own, set := r.Negative[status]
	if window, stated := r.statedLifetime(h, d, targeted, r.Revalidate > 0 || set); stated {
		if !targeted && !d.Has("s-maxage") && outlives(status, h) {
			window = min(window, MaxNegative)
		}
		return window - InitialAge(h, r.Requested), false
	}
	if r.Revalidate == 0 && !set {
		return 0, false
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

// outlived returns the freshness lifetime of a response that states one, without regard to its age;
// zero if it states none.
func (r Rules) outlived(status int, h http.Header, d Directives, targeted bool) time.Duration {
	_, set := r.Negative[status]
	window, stated := r.statedLifetime(h, d, targeted, r.Revalidate > 0 || set)
	if !stated {
		return 0
	}
	return window
}

// age describes a response that is older than its freshness lifetime.
func (r Rules) age(h http.Header, window time.Duration) error {
	by := "Date"
	if ageOf(h) >= window {
		by = "Age"
	}
	return fmt.Errorf("the response is fresh for %s, and by its %s it is %s old already", window, by, InitialAge(h, r.Requested))
}

// statedLifetime returns the freshness lifetime that the response states for a shared cache
// (RFC 9111, section 4.2.1), and whether it states one. optedIn: the operator caches responses
// that state none, so that under Strict those for all caches count too.
func (r Rules) statedLifetime(h http.Header, d Directives, targeted, optedIn bool) (window time.Duration, stated bool) {
	if v, ok := d.Seconds("s-maxage"); ok {
		return v, true
	}
	counts := optedIn || !r.Strict
	if v, ok := d.Seconds("max-age"); ok {
		return v, counts || targeted || d.Has("public")
	}
	if lines := h["Expires"]; len(lines) > 0 && counts && !targeted { // RFC 9213, section 2.2
		return untilExpires(h, r.Requested), true
	}
	return 0, false
}

// statesLifetime reports whether a response states a freshness lifetime that has not ended.
func (r Rules) statesLifetime(h http.Header, d Directives, targeted bool) bool {
	window, stated := r.statedLifetime(h, d, targeted, false)
	return stated && window > InitialAge(h, r.Requested)
}

// untilExpires returns the time from Date to Expires, zero if either is invalid. A response
// without Date has the date of its request (RFC 9110, section 6.6.1, would use its receipt).
func untilExpires(h http.Header, requested time.Time) time.Duration {
	expires, ok := dateIn(h["Expires"])
	if !ok {
		return 0 // RFC 9111, section 5.3: an invalid date is in the past
	}
	date := requested
	if lines := h["Date"]; len(lines) > 0 {
		if date, ok = dateIn(lines); !ok {
			return 0
		}
	} else if requested.IsZero() {
		return 0
	}
	// Not below zero: dates of the year 1, as .NET sends them, are a negative interval without room for an age.
	return min(max(expires.Sub(date), 0), maxDelta)
}

// ParseDate parses a date in one of the three formats that a recipient must accept (RFC
// 9110, section 5.6.7). Unlike [http.ParseTime] it accepts them only as they are written
// there: with GMT, two digits each, and the right day of the week, in any letter case (RFC
// 9111, section 4.2).
func ParseDate(s string) (t time.Time, ok bool) {
	if n := len(s) - len("GMT"); n > 0 && strings.EqualFold(s[n:], "GMT") {
		s = s[:n] + "GMT"
	}
	for _, format := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if t, err := time.Parse(format, s); err == nil && strings.EqualFold(t.Format(format), s) {
			return t, true
		}
	}
	return time.Time{}, false
}

// KeptIfError is how long a page is served while its origin fails by [Rules].KeepStale.
const KeptIfError = 24 * time.Hour

// StaleIfErrorOf returns how long after its freshness window a response may be served while
// the origin fails (RFC 5861, section 4).
func (r Rules) StaleIfErrorOf(status int, h http.Header) time.Duration {
	d, targeted := ForSharedCache(h)
	missing := time.Duration(0)
	if _, inherited := r.lifetime(status, h, d, targeted); inherited && r.KeepStale {
		missing = KeptIfError
	}
	return staleFor(d, "stale-if-error", r.StaleIfError, missing, r.Stale > 0 || r.StaleIfError > 0)
}

// AllowsStale reports whether a stored response may be served stale to a client that accepts
// that (RFC 9111, section 4.2.4).
func (r Rules) AllowsStale(h http.Header) bool {
	d, _ := ForSharedCache(h)
	return r.Stale >= 0 && !d.forbidsStale() && (!d.Has("s-maxage") || r.Stale > 0)
}

// AllowsOnError reports whether a stored response whose freshness a purge has ended before its
// lifetime may be served while the origin fails: its origin still calls it fresh.
func (r Rules) AllowsOnError(h http.Header) bool {
	d, _ := ForSharedCache(h)
	return !d.forbidsStale() && r.StaleIfError >= 0 && (r.Stale >= 0 || r.StaleIfError > 0)
}

// staleFor returns what a directive grants, within the bound of the route, which is also the
// default if it is positive. must-revalidate and proxy-revalidate forbid serving a stale
// response even beside the directive (RFC 9111, sections 5.2.2.2 and 5.2.2.8), and so does
// s-maxage (section 5.2.2.10), unless the operator allows it. A directive without an interval,
// which RFC 5861 requires and Nitro leaves out, grants what the route does. missing is the default if the route has none.
func staleFor(d Directives, directive string, route, missing time.Duration, allowed bool) time.Duration {
	stated, ok := d.Seconds(directive)
	if d[directive] == "" {
		ok = false
	}
	switch {
	case route < 0, d.forbidsStale(), d.Has("s-maxage") && !allowed:
		return 0
	case ok && route > 0:
		return min(stated, route)
	case ok:
		return stated
	}
	return cmp.Or(route, missing)
}

// IsEndless reports whether a content type is a stream that does not end by itself: server-sent events (WHATWG HTML,
// section 9.2), or parts that replace each other.
func IsEndless(contentType string) bool {
	contentType = strings.ToLower(contentType) // RFC 9110, section 8.3.1
	return strings.HasPrefix(contentType, "text/event-stream") || strings.HasPrefix(contentType, "multipart/x-mixed-replace")
}

// DeclaredLength returns the Content-Length of a response, -1 if it has none, or an invalid one.
func DeclaredLength(h http.Header) int64 {
	lines := h["Content-Length"]
	if len(lines) != 1 || strings.Trim(lines[0], "0123456789") != "" { // ParseInt takes a sign
		return -1
	}
	n, err := strconv.ParseInt(lines[0], 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt64
	}
	if err != nil {
		return -1
	}
	return n
}

// HeaderSize returns the size of a header in bytes, where each field counts for its name, its value
// and 32 bytes (RFC 9113, section 6.5.2).
func HeaderSize(h http.Header) int64 {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + 32
		}
	}
	return int64(n)
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
