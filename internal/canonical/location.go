package canonical

import (
	"net/url"
	"strings"
)

// Location returns the URL that a browser requests after a redirect: the value of a field
// Location, resolved against the URL of the request. The value is read as browsers do (WHATWG
// URL Standard, section 4.4), which is more lenient than RFC 3986: spaces around it and tabs in
// it are dropped, a backslash is a slash, characters that no URL has are percent-encoded, and a
// name in Unicode has its ASCII form. The result has no fragment. It is false for an empty value,
// for one that cannot be parsed, and for another scheme than http and https. base has a scheme, a
// host and a path.
func Location(base *url.URL, value string) (*url.URL, bool) {
	value = strings.TrimFunc(value, func(c rune) bool { return c <= ' ' })
	if value == "" {
		return nil, false
	}
	value, _, _ = strings.Cut(value, "#")
	u, err := url.Parse(asReference(value))
	if err != nil || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	u = base.ResolveReference(u)
	u.Host = asciiHost(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u, true
}

// asReference returns the URI reference (RFC 3986, section 4.1) that a browser reads in a text.
func asReference(text string) string {
	reference, query, hasQuery := strings.Cut(text, "?")
	reference = slashes.Replace(reference)
	scheme, tail := "", reference
	for _, known := range []string{"http:", "https:"} {
		if len(reference) >= len(known) && strings.EqualFold(reference[:len(known)], known) {
			scheme, tail = known, reference[len(known):]
		}
	}
	switch {
	case strings.HasPrefix(tail, "//"): // any number of slashes begins an authority
		reference = scheme + "//" + strings.TrimLeft(tail, "/")
	case scheme != "": // a scheme without an authority is the scheme of the base, and the rest is relative to it
		reference = tail
	}
	if hasQuery {
		reference += "?" + query
	}
	return EscapeInvalid(reference)
}

// slashes has what browsers read in the part of a reference before its query: a backslash is a
// slash, and an encoded dot is a dot, also in a segment "..".
var slashes = strings.NewReplacer(`\`, "/", "%2e", ".", "%2E", ".")

// EscapeInvalid percent-encodes the characters that no URI has (RFC 3986, section 2), and drops
// tabs and line ends.
func EscapeInvalid(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\t', c == '\n', c == '\r':
		case c <= ' ', c >= 0x7f, strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
