package httpcache

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clockTolerance is the difference between the clocks of an origin and of this machine that
// [InitialAge] puts up with.
const clockTolerance = 2 * time.Minute

// InitialAge returns the age that a response already had when it was requested (RFC 9111, section
// 4.2.3): the larger of its Age and its apparent age, which is the time from its Date until then. The
// time since the request counts from there.
//
// An apparent age of up to two minutes is taken for a difference between the clocks: otherwise
// the pages of an origin whose clock is a few seconds behind would be fresh for less than they
// state, or never. A larger one is believed: the response comes from a cache that does not send Age,
// and shared caches must not prolong it. requested is zero if it is unknown.
func InitialAge(h http.Header, requested time.Time) time.Duration {
	age := ageOf(h)
	date, ok := dateOf(h)
	if !ok || requested.IsZero() {
		return age
	}
	if apparent := requested.Sub(date).Truncate(time.Second); apparent > clockTolerance {
		age = max(age, min(apparent, maxDelta))
	}
	return age
}

// dateOf returns the Date of a response (RFC 9110, section 6.6.1), and whether it has one.
func dateOf(h http.Header) (time.Time, bool) { return dateIn(h["Date"]) }

// dateIn returns the date in the lines of a field that has one value. Several lines are invalid (RFC 9110, section
// 5.5).
func dateIn(lines []string) (time.Time, bool) {
	if len(lines) == 1 {
		return ParseDate(lines[0])
	}
	return time.Time{}, false
}

// ageOf returns the first Age of a response (RFC 9111, section 5.1), zero if it is not a
// number.
func ageOf(h http.Header) time.Duration {
	const longest = 1 << 31 // seconds; larger numbers count as this (section 1.2.2)
	first, _, _ := strings.Cut(h.Get("Age"), ",")
	first = trimOWS(first)
	if first == "" || strings.Trim(first, "0123456789") != "" { // ParseUint may find first that it is too large
		return 0
	}
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return longest * time.Second
	}
	return time.Duration(min(n, longest)) * time.Second
}
