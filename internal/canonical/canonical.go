package canonical

import (
	"cmp"
	"encoding/hex"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Host returns the canonical form of a host, and whether s is a valid host of at most 260
// bytes: a registered name, an IPv4 address or an IPv6 address in brackets, with or without a
// port (RFC 3986, section 3.2.2). Letters are lower case; a trailing dot and the default
// ports 80 and 443 are removed (a key has no scheme, so both are); a port has no leading
// zeros.
func Host(s string) (string, bool) {
	name, port, ok := splitHost(s)
	if !ok || len(s) > maxHostLength {
		return "", false
	}
	if name[0] == '[' {
		address, err := netip.ParseAddr(name[1 : len(name)-1])
		if err != nil || !address.Is6() || address.Zone() != "" {
			return "", false
		}
		name = strings.ToLower(name)
	} else if name, ok = canonicalName(name); !ok {
		return "", false
	}
	if port == "" || port == "80" || port == "443" {
		return name, true
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return "", false
	}
	if len(name)+1+len(port) == len(s) && strings.HasPrefix(s, name) {
		return s, true // the common case, without an allocation
	}
	return name + ":" + port, true
}

// maxHostLength is the longest host with its port, in bytes: the longest DNS name, a
// trailing dot and a port.
const maxHostLength = 260

// splitHost splits a host into name and port. The name is not empty and includes the
// brackets of an IPv6 address. An empty port counts as absent (RFC 3986, section 3.2.3).
func splitHost(s string) (name, port string, ok bool) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false
		}
		rest := s[end+1:]
		if rest != "" && rest[0] != ':' {
			return "", "", false
		}
		return s[:end+1], strings.TrimPrefix(rest, ":"), true
	}
	name, port, _ = strings.Cut(s, ":")
	return name, port, name != ""
}

// canonicalName removes the trailing dot of a name, and makes its letters lower case. It is false for a
// name with an empty label or with other characters than letters, digits, '-', '.' and '_'.
func canonicalName(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	upper, dot := false, true // an upper-case letter was found; a label begins
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		case c >= 'A' && c <= 'Z':
			upper = true
		case c != '.' || dot:
			return "", false
		}
		dot = c == '.'
	}
	if upper {
		name = strings.ToLower(name)
	}
	return name, !dot
}

// Path normalizes percent-encoding (RFC 3986, section 6.2.2): upper-case digits, and
// unreserved characters not encoded. It is false for a path that does not begin with a slash
// or is not encoded correctly.
func Path(path string) (string, bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	canonical := true
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("#?\"<>\\^`{|}", c) >= 0 {
			return "", false
		}
		canonical = canonical && c != '%'
	}
	if canonical {
		return path, true
	}
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", false
		}
		var c [1]byte
		if _, err := hex.Decode(c[:], []byte(path[i+1:i+3])); err != nil {
			return "", false
		}
		if isUnreserved(c[0]) {
			b.WriteByte(c[0])
		} else {
			b.WriteByte('%')
			b.WriteString(strings.ToUpper(path[i+1 : i+3]))
		}
		i += 2
	}
	return b.String(), true
}

// A ParameterUse is what [Query] does with a query parameter.
type ParameterUse int

// The uses of a parameter.
const (
	Unknown ParameterUse = iota // not declared: the query has no canonical form
	InKey                       // part of the key
	Dropped                     // removed, such as a tracking parameter
)

// Query returns the parameters that belong to the key, percent-encoded and sorted by name.
// Parameters of the same name keep their order, which may have a meaning for the renderer. It
// is false for a query with an unknown parameter or incorrect encoding.
func Query(raw string, use func(name string) ParameterUse) (string, bool) {
	if raw == "" {
		return "", true
	}
	type pair struct{ name, text string }
	var pairs []pair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		rawName, rawValue, hasValue := strings.Cut(part, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || strings.Contains(part, ";") {
			return "", false // some servers split at ';' too: ambiguous
		}
		switch use(name) {
		case Unknown:
			return "", false
		case Dropped:
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return "", false
		}
		p := pair{name: EscapeQuery(name)}
		p.text = p.name
		if hasValue {
			p.text += "=" + EscapeQuery(value)
		}
		pairs = append(pairs, p)
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

// EscapeQuery percent-encodes every character that is not unreserved.
func EscapeQuery(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// IsAlphanumeric reports whether a character is an ASCII letter or digit.
func IsAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isUnreserved reports whether a character is unreserved (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return IsAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'
}
