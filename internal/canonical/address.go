package canonical

import (
	"encoding/hex"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// Address returns the URL or the text of a key that people and services write as the request of
// a browser names it (WHATWG URL, section 4.4): a host in letters beyond ASCII becomes its
// ASCII form, a path is percent-encoded where it has to be, and what is encoded already stays as
// it is. With the scheme http or https the segments "." and ".." are resolved and a fragment is
// removed; a text without a scheme may be a key, in which both have a meaning. What no browser
// accepts stays as it is. The query is not encoded, since [Query] accepts both forms.
func Address(s string) string {
	scheme, host, path, rest := splitAddress(trimAddress(s))
	path = EncodePath(path)
	if scheme != "" {
		path = withoutDots(path)
		rest, _, _ = strings.Cut(rest, "#")
	}
	return scheme + asciiHost(host) + path + rest
}

// AddressPrefix returns the beginning of a URL or key as [Address] does. It resolves no dots,
// which would extend what it covers.
func AddressPrefix(s string) string {
	scheme, host, path, rest := splitAddress(trimAddress(s))
	return scheme + asciiHost(host) + EncodePath(path) + encode(rest, func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

// trimAddress removes what browsers remove before they read a URL.
func trimAddress(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
}

// splitAddress splits a URL or key. The scheme includes "://", the path its first slash, and
// rest begins with '?' or '#'. scheme is empty unless it is http or https.
func splitAddress(s string) (scheme, host, path, rest string) {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s, rest = s[:i], s[i:]
	}
	s = strings.ReplaceAll(s, `\`, "/")
	for _, known := range []string{"http://", "https://"} {
		if len(s) >= len(known) && strings.EqualFold(s[:len(known)], known) {
			scheme, s = s[:len(known)], s[len(known):]
			break
		}
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		s, path = s[:i], s[i:]
	}
	return scheme, s, path, rest
}

// EncodePath percent-encodes the characters of a path that requests have in encoded form only,
// '?' and '#' among them, and a '%' that begins no encoding. An encoding stays as it is.
func EncodePath(path string) string {
	return encode(path, func(c byte) bool {
		return c <= ' ' || c >= 0x7f || strings.IndexByte("#?\"<>\\^`{|}", c) >= 0
	})
}

// EncodeQuery percent-encodes a name or a value of a query. An encoding stays as it is.
func EncodeQuery(s string) string {
	return encode(s, func(c byte) bool { return !isUnreserved(c) && c != '%' })
}

// encode percent-encodes the bytes that must be, and a '%' that begins no encoding.
func encode(s string, must func(byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; must(c) || c == '%' && !isEncoding(s[i:]) {
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isEncoding reports whether s begins with '%' and two hexadecimal digits.
func isEncoding(s string) bool {
	if len(s) < 3 {
		return false
	}
	var c [1]byte
	_, err := hex.Decode(c[:], []byte(s[1:3]))
	return err == nil
}

// withoutDots resolves the segments "." and ".." of a path, also encoded ones (WHATWG URL,
// section 4.4, path state).
func withoutDots(path string) string {
	if !strings.HasPrefix(path, "/") {
		return path
	}
	segments := strings.Split(path[1:], "/")
	var kept []string
	for i, segment := range segments {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		case ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "") // the path ends in a slash
		}
	}
	return "/" + strings.Join(kept, "/")
}

// asciiHost returns the ASCII form of a host in letters beyond ASCII, with or without a port
// (UTS 46, as browsers use it). Another one, and one that has no such form, stays as it is.
func asciiHost(host string) string {
	if strings.HasPrefix(host, "[") || !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 || r == '%' }) {
		return host
	}
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	}
	decoded, err := url.PathUnescape(name)
	if err != nil {
		return host
	}
	profile := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckHyphens(false), idna.StrictDomainName(false))
	ascii, err := profile.ToASCII(decoded)
	if _, isName := canonicalName(ascii); err != nil || !isName {
		return host // an encoded slash, for example, ends no host
	}
	return ascii + port
}
