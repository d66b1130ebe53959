package httpcache

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxErrorAge is the longest lifetime that an error response may state for browsers.
const maxErrorAge = 24 * time.Hour

// A site that sends a field for all files of a folder, such as "max-age=31536000, immutable", sends
// it with a 404 of that folder, too. During a rolling deploy a server may not have a file yet that
// the pages of another one name, and a browser would keep the 404 for a year, where no purge
// reaches it.

// outlives reports whether an error response has a lifetime that is meant for a file: it is
// immutable (RFC 8246), or browsers may keep it for longer than maxErrorAge. CDN-Cache-Control,
// Surrogate-Control and s-maxage are for caches that purges reach.
func outlives(status int, h http.Header) bool {
	if status < http.StatusBadRequest {
		return false
	}
	d := ParseDirectives(h["Cache-Control"])
	if d.Has("immutable") {
		return true
	}
	if age, ok := d.Seconds("max-age"); ok {
		return age > maxErrorAge
	}
	return len(h["Expires"]) > 0 && untilExpires(h, time.Now()) > maxErrorAge
}

// BriefError returns the Cache-Control field of an error response whose lifetime is meant for a
// file: without "immutable", and with a max-age of at most [MaxNegative]. Expires must be removed
// with it. Otherwise it returns nil, and the fields of the response stay.
func BriefError(status int, h http.Header) []string {
	if !outlives(status, h) {
		return nil
	}
	var kept []string
	for _, line := range h["Cache-Control"] {
		for member := range Members(line) {
			name, _, _ := strings.Cut(member, "=")
			if name = strings.ToLower(strings.TrimSpace(name)); name != "immutable" && name != "max-age" {
				kept = append(kept, member)
			}
		}
	}
	age := MaxNegative
	if stated, ok := ParseDirectives(h["Cache-Control"]).Seconds("max-age"); ok {
		age = min(age, stated)
	}
	return []string{strings.Join(append(kept, "max-age="+strconv.Itoa(int(age/time.Second))), ", ")}
}
