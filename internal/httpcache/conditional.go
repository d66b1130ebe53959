package httpcache

import (
	"net/http"
	"strings"
	"time"
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

// CodedETag returns the entity tag of a coding of a body. Strong validators of different
// codings must differ (RFC 9110, section 8.8.3.3); a weak one is returned unchanged.
func CodedETag(etag, coding string) string {
	if s, ok := strings.CutSuffix(etag, `"`); ok && !strings.HasPrefix(etag, "W/") {
		return s + "-" + coding + `"`
	}
	return etag
}

// NotModified evaluates the conditions of a GET or HEAD request (RFC 9110, section
// 13.2.2): If-None-Match, and If-Modified-Since if that is absent. etags are the entity
// tags of the representations, empty where there is none; any of them matches, by the
// weak comparison. A zero modified means that the page has no Last-Modified.
func NotModified(h http.Header, modified time.Time, etags ...string) bool {
	if lines := h["If-None-Match"]; len(lines) > 0 {
		for _, line := range lines {
			for tag := range Members(line) {
				if tag == "*" || matchesWeakly(tag, etags) {
					return true
				}
			}
		}
		return false
	}
	if lines := h["If-Modified-Since"]; len(lines) == 1 && !modified.IsZero() {
		since, err := http.ParseTime(lines[0])
		return err == nil && !modified.After(since)
	}
	return false
}

// matchesWeakly compares weakly (RFC 9110, section 8.8.3.2).
func matchesWeakly(tag string, etags []string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, etag := range etags {
		if etag != "" && tag == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}
