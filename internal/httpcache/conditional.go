package httpcache

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// ValidETag reports whether s is an entity tag (RFC 9110, section 8.8.3) of at most 1,024
// bytes; it is stored in the META row.
func ValidETag(s string) bool {
	opaque := strings.TrimPrefix(s, "W/")
	if len(opaque) < 2 || len(opaque) > 1024 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
		return false
	}
	for _, c := range []byte(opaque[1 : len(opaque)-1]) {
		if c <= ' ' || c == '"' || c == 0x7f {
			return false
		}
	}
	return true
}

// ETagOf returns the entity tag of a response; empty if it has none, several, an invalid one, or one that is no
// UTF-8, which rows cannot have.
func ETagOf(h http.Header) string {
	if lines := h["Etag"]; len(lines) == 1 && ValidETag(lines[0]) && utf8.ValidString(lines[0]) {
		return lines[0]
	}
	return ""
}

// CodedETag returns the entity tag of a coding of a body. Strong validators of different
// codings must differ (RFC 9110, section 8.8.3.3); a weak one is returned unchanged.
func CodedETag(etag, coding string) string {
	if s, ok := strings.CutSuffix(etag, `"`); ok && !strings.HasPrefix(etag, "W/") {
		return s + "-" + coding + `"`
	}
	return etag
}

// NotModified evaluates the conditions of a GET or HEAD request (RFC 9110, section
// 13.2.2): If-None-Match, and If-Modified-Since if that is absent. etag is the entity tag of
// the selected representation, empty if it has none; modified is its Last-Modified, or else
// when it was generated (RFC 9111, section 4.3.2).
func NotModified(h http.Header, etag string, modified time.Time) bool {
	if lines := h["If-None-Match"]; len(lines) > 0 {
		for _, line := range lines {
			for tag := range Members(line) {
				if tag == "*" || matchesWeakly(tag, etag) {
					return true
				}
			}
		}
		return false
	}
	if lines := h["If-Modified-Since"]; len(lines) == 1 {
		since, ok := ParseDate(lines[0])
		return ok && !modified.After(since)
	}
	return false
}

// Revalidates reports whether the conditions of a GET or HEAD request are met by a response with
// status 200 and a header: the visitor has that response already. One without Last-Modified
// does not answer If-Modified-Since.
func Revalidates(request, sent http.Header) bool {
	modified, ok := ParseDate(sent.Get("Last-Modified"))
	if !ok && len(request["If-None-Match"]) == 0 {
		return false
	}
	return NotModified(request, sent.Get("Etag"), modified)
}

// matchesWeakly compares weakly (RFC 9110, section 8.8.3.2).
func matchesWeakly(tag, etag string) bool {
	return etag != "" && strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/")
}
