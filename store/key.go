package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/canonical"
)

// MaxKeyLength is the longest canonical text of a key, in bytes. Requests with longer keys
// are not cached.
const MaxKeyLength = 4096

// MaxTenantLength is the longest name of a tenant, in bytes.
const MaxTenantLength = 64

// A Key names one cached page. It is comparable. Everything that the renderer sees of a
// request is derived from it.
type Key struct {
	// Tenant is empty on a site without tenants; see [ValidTenant].
	Tenant string
	// Text is the canonical text: host, path, declared query parameters and variant,
	// like "example.com/news?page=2#rsc=1".
	Text string
}

// ParseKey returns the key of a URL ("https://example.com/news?page=2") or of a key's text.
// It keeps every query parameter, and a variant after '#'. The tenant may be empty. Errors
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
	host, path, query, variant := k.Split()
	if strings.Contains(host, "@") {
		return Key{}, fmt.Errorf("%w: %q was given with user information (user:password@), which is not part of a page's address; leave it out", ErrInvalidKey, canonical.Shown(s))
	}
	if strings.HasSuffix(host, ":") && strings.HasPrefix(path, "//") {
		return Key{}, fmt.Errorf("%w: %q: the scheme must be http or https", ErrInvalidKey, canonical.Shown(s))
	}
	host, ok := canonical.Host(host)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q does not begin with a host name; expected a URL such as https://example.com/page or a key such as example.com/page", ErrInvalidKey, canonical.Shown(s))
	}
	if path == "" {
		path = "/"
	}
	path, ok = canonical.Path(path)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q: the path is not percent-encoded correctly", ErrInvalidKey, canonical.Shown(s))
	}
	everything := func(string) canonical.ParameterUse { return canonical.InKey }
	query, ok = canonical.Query(query, everything)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q: the query is not percent-encoded correctly", ErrInvalidKey, canonical.Shown(s))
	}
	k.Text = JoinKey(host, path, query, variant)
	if err := ValidKey(k); err != nil {
		return Key{}, err
	}
	return k, nil
}

// ParseAddress returns the key of a URL or of a key's text as people and services write it:
// what a browser would request for it. It accepts letters beyond ASCII in hosts and paths, encoded
// or not, and other characters that [ParseKey] refuses because no key has them. With a scheme the
// segments "." and ".." are resolved, and a fragment is ignored. Errors wrap [ErrInvalidKey].
func ParseAddress(tenant, s string) (Key, error) { return ParseKey(tenant, canonical.Address(s)) }

// ValidKey returns an error wrapping [ErrInvalidKey] unless the text of k is UTF-8 of 1 to
// 4,096 bytes and its tenant is empty or valid (see [ValidTenant]). It does not check that
// the text is canonical: a key that no request has is harmless. Keys of [ParseKey] and of
// requests are valid.
func ValidKey(k Key) error {
	if k.Text == "" || len(k.Text) > MaxKeyLength {
		return fmt.Errorf("%w: the text must have 1 to %d bytes (got %d)", ErrInvalidKey, MaxKeyLength, len(k.Text))
	}
	if !utf8.ValidString(k.Text) {
		return fmt.Errorf("%w: the text %.60q is not valid UTF-8", ErrInvalidKey, k.Text)
	}
	if k.Tenant == "" {
		return nil
	}
	return ValidTenant(k.Tenant)
}

// String returns the text, prefixed with the tenant and a colon if there is a tenant.
func (k Key) String() string {
	if k.Tenant == "" {
		return k.Text
	}
	return k.Tenant + ":" + k.Text
}

// Split returns the parts of the text. [JoinKey] is its inverse.
func (k Key) Split() (host, path, query, variant string) {
	rest, variant, _ := strings.Cut(k.Text, "#")
	rest, query, _ = strings.Cut(rest, "?")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[:i], rest[i:], query, variant
	}
	return rest, "", query, variant
}

// JoinKey returns the text of a key with these canonical parts.
func JoinKey(host, path, query, variant string) string {
	var buf [256]byte // more than most keys have
	return string(AppendKey(buf[:0], host, path, query, variant))
}

// AppendKey appends the text of a key with these canonical parts.
func AppendKey(b []byte, host, path, query, variant string) []byte {
	b = append(append(b, host...), path...)
	if query != "" {
		b = append(append(b, '?'), query...)
	}
	if variant != "" {
		b = append(append(b, '#'), variant...)
	}
	return b
}

// ValidTenant returns an error wrapping [ErrInvalidKey] unless the name matches
// ^[A-Za-z0-9._-]{1,64}$.
func ValidTenant(tenant string) error {
	if tenant == "" {
		return fmt.Errorf("%w: the tenant is empty", ErrInvalidKey)
	}
	if len(tenant) > MaxTenantLength {
		return fmt.Errorf("%w: the tenant has %d bytes (at most %d are allowed)", ErrInvalidKey, len(tenant), MaxTenantLength)
	}
	for i := range len(tenant) {
		if c := tenant[i]; !canonical.IsAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%w: the tenant %q must consist of letters, digits, '.', '_' and '-'", ErrInvalidKey, tenant)
		}
	}
	return nil
}
