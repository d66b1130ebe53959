package isr

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKeyLength bounds the canonical text of a key, in bytes. Longer requests
// are not cached.
const maxKeyLength = 4096

// maxTenantLength bounds a tenant's name, in bytes.
const maxTenantLength = 64

// A Key names one cached page. It is comparable, and everything that the
// renderer sees of a request can be told from it.
type Key struct {
	// Tenant is empty on a site without tenants; see [ValidTenant].
	Tenant string
	// Text is the canonical text: host, path, projected query, variant, as in
	// "example.com/news?page=2#rsc=1".
	Text string
}

// ParseKey makes a key of a URL ("https://example.com/news?page=2") or of a
// key's text, in either case with every query parameter that is written there,
// and with a variant after '#' if there is one. The tenant may be empty. Errors
// wrap [ErrInvalidKey].
func ParseKey(tenant, s string) (Key, error) {
	if tenant != "" {
		if err := ValidTenant(tenant); err != nil {
			return Key{}, err
		}
	}
	text := s
	for _, scheme := range []string{"http://", "https://"} {
		if len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			text = s[len(scheme):]
		}
	}
	k := Key{Tenant: tenant, Text: text}
	host, path, query, variant := k.split()
	if strings.HasSuffix(host, ":") && strings.HasPrefix(path, "//") {
		return Key{}, fmt.Errorf("%w: %q has another scheme than http and https", ErrInvalidKey, s)
	}
	host, ok := CanonicalHost(host)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q does not begin with a host name; expected a URL like https://example.com/page or a key like example.com/page", ErrInvalidKey, s)
	}
	if path == "" {
		path = "/"
	}
	path, ok = canonicalPath(path)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q has a path that is not percent-encoded as a URL's", ErrInvalidKey, s)
	}
	everything := func(string) parameterUse { return parameterInKey }
	query, ok = canonicalQuery(query, everything)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q has a query that is not percent-encoded as a URL's", ErrInvalidKey, s)
	}
	k.Text = joinKey(host, path, query, variant)
	if err := ValidKey(k); err != nil {
		return Key{}, err
	}
	return k, nil
}

// ValidKey returns an error wrapping [ErrInvalidKey] unless k can name a page: its
// text is UTF-8 of 1 to 4,096 bytes, and its tenant, if it has one, is as
// [ValidTenant] says. It does not ask whether the text is canonical: a key that no
// request has is harmless. Keys of [ParseKey] and of requests are valid.
func ValidKey(k Key) error {
	if k.Text == "" || len(k.Text) > maxKeyLength {
		return fmt.Errorf("%w: its text has 1 to %d bytes, this one has %d", ErrInvalidKey, maxKeyLength, len(k.Text))
	}
	if !utf8.ValidString(k.Text) {
		return fmt.Errorf("%w: the text %.60q is not valid UTF-8", ErrInvalidKey, k.Text)
	}
	if k.Tenant == "" {
		return nil
	}
	return ValidTenant(k.Tenant)
}

// String is the key for people: the text, with the tenant before it if there is one.
func (k Key) String() string {
	if k.Tenant == "" {
		return k.Text
	}
	return k.Tenant + ":" + k.Text
}

// split takes the text apart; joinKey is its inverse.
func (k Key) split() (host, path, query, variant string) {
	rest, variant, _ := strings.Cut(k.Text, "#")
	rest, query, _ = strings.Cut(rest, "?")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[:i], rest[i:], query, variant
	}
	return rest, "", query, variant
}

func joinKey(host, path, query, variant string) string {
	switch {
	case query == "" && variant == "":
		return host + path // the common case, in one allocation
	case variant == "":
		return host + path + "?" + query
	case query == "":
		return host + path + "#" + variant
	}
	return host + path + "?" + query + "#" + variant
}

// CanonicalHost returns the one form of a host that keys have, and whether s is a
// host at all: a registered name or an IP address in brackets or dotted, with or
// without a port (RFC 3986, section 3.2.2). Letters are lower case, a trailing dot
// and the default ports 80 and 443 are dropped (a key has no scheme, and so either
// is), a port has no leading zeros. At most 260 bytes.
func CanonicalHost(s string) (string, bool) {
	name, port, ok := splitHost(s)
	if !ok || len(s) > maxHostLength {
		return "", false
	}
	if name[0] == '[' {
		address, err := netip.ParseAddr(name[1 : len(name)-1])
		if err != nil || !address.Is6() || address.Zone() != "" {
			return "", false
		}
	} else if name, ok = canonicalName(name); !ok {
		return "", false
	}
	name = strings.ToLower(name)
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

// maxHostLength bounds a host with its port, in bytes: the longest name that DNS
// has, and room for a dot and a port.
const maxHostLength = 260

// splitHost takes a host apart. The name is not empty, and the brackets of an IPv6
// address belong to it. An empty port is none (RFC 3986, section 3.2.3).
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

// canonicalName drops the trailing dot of a name. It is false for text with other
// characters than names have.
func canonicalName(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return "", false
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '-' && c != '.' && c != '_' {
			return "", false
		}
	}
	return name, true
}

// canonicalPath brings percent-encoding to the one form of RFC 3986, section
// 6.2.2: upper-case digits, nothing encoded that need not be. It is false for a
// path that does not begin with a slash or is badly encoded.
func canonicalPath(path string) (string, bool) {
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

// A parameterUse is what the projection does with a query parameter.
type parameterUse int

const (
	parameterUnknown parameterUse = iota // nobody declared it
	parameterInKey
	parameterDropped
)

// canonicalQuery keeps the parameters that belong to the key, percent-encoded,
// sorted by name. Parameters of one name keep their order, because it may carry
// meaning to the renderer, which is given the query in this form. It is false
// for a query with an unknown parameter or bad encoding.
func canonicalQuery(raw string, use func(name string) parameterUse) (string, bool) {
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
			return "", false // some servers split at ';': not ours to guess
		}
		switch use(name) {
		case parameterUnknown:
			return "", false
		case parameterDropped:
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return "", false
		}
		p := pair{name: escapeQuery(name)}
		p.text = p.name
		if hasValue {
			p.text += "=" + escapeQuery(value)
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

// escapeQuery percent-encodes all but unreserved characters.
func escapeQuery(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// ValidTenant returns an error wrapping [ErrInvalidKey] unless the name matches
// ^[A-Za-z0-9._-]{1,64}$.
func ValidTenant(tenant string) error {
	if tenant == "" {
		return fmt.Errorf("%w: the tenant is empty", ErrInvalidKey)
	}
	if len(tenant) > maxTenantLength {
		return fmt.Errorf("%w: the tenant has %d bytes, at most %d are allowed", ErrInvalidKey, len(tenant), maxTenantLength)
	}
	for i := range len(tenant) {
		if c := tenant[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%w: the tenant %q may have letters, digits, '.', '_' and '-' only", ErrInvalidKey, tenant)
		}
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isUnreserved is RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return isAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// bodyRoot is where all bodies lie that a [Cache] writes.
const bodyRoot = "bodies/"

// bodyPrefix is where all bodies of a partition lie in the [BodyStore].
func bodyPrefix(pk string) string {
	sum := sha256.Sum256([]byte(pk))
	return bodyRoot + hex.EncodeToString(sum[:]) + "/"
}
