package canonical

import "net/http"

// Target returns a request whose path is "/" if it has none: a request-target in absolute-form may
// have an empty path (RFC 9112, section 3.2.2), which is equivalent to "/" (RFC 9110, section 4.2.3).
// CONNECT requests, which have no path, and others are returned as they are.
func Target(r *http.Request) *http.Request {
	if r.URL.Path != "" || r.Method == http.MethodConnect {
		return r
	}
	rooted, u := *r, *r.URL
	u.Path, u.RawPath = "/", ""
	rooted.URL = &u
	return &rooted
}
