// Package draft makes and checks the tokens by which editors see unpublished content: each is
// for a host and the paths below one path, until a time, and signed with HMAC-SHA256. It is a
// credential: it is in a URL only until the gateway has exchanged it for a cookie.
package draft

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/canonical"
)

// Name is the name of the query parameter and of the cookie that have a token, and Off the
// value of the parameter that ends draft mode.
const (
	Name = "isr-draft"
	Off  = "off"
)

const (
	// MinSecret and MaxSecrets bound secrets, in bytes, and their number: two while one is
	// replaced.
	MinSecret  = 16
	MaxSecrets = 2
	// MaxLife is the longest validity of a token.
	MaxLife = 30 * 24 * time.Hour

	maxScope = 512
	maxToken = 1024

	version = "1"
)

// ErrInvalid is returned for a token that is malformed, expired, made with another secret, or
// for another host or path. It does not say which, so that it helps nobody who tries tokens.
var ErrInvalid = errors.New("the draft token is not valid")

// A Grant is what a token allows.
type Grant struct {
	Host    string // in canonical form, with a port that is not the default
	Scope   string // a path: the token is for it and all below; "/" is all of the host
	Expires time.Time
}

// CheckSecrets returns an error unless there are one or two secrets of at least 16 bytes.
func CheckSecrets(secrets []string) error {
	if n := len(secrets); n == 0 || n > MaxSecrets {
		return fmt.Errorf("there must be 1 to %d secrets (got %d)", MaxSecrets, n)
	}
	for _, s := range secrets {
		if len(s) < MinSecret {
			return fmt.Errorf("a secret must have at least %d bytes (got %d); make one with: openssl rand -base64 32", MinSecret, len(s))
		}
	}
	return nil
}

// Sign returns the token of a grant. Expires is rounded down to seconds.
func Sign(secret string, g Grant) (string, error) {
	scope, ok := canonical.Path(g.Scope)
	switch {
	case CheckSecrets([]string{secret}) != nil:
		return "", CheckSecrets([]string{secret})
	case !ok || len(scope) > maxScope || !isPlain(scope):
		return "", fmt.Errorf("the scope %.100q is not a path of at most %d bytes without dot segments", g.Scope, maxScope)
	}
	expires := strconv.FormatInt(g.Expires.Unix(), 10)
	return strings.Join([]string{version, expires, encode([]byte(scope)), encode(sum(secret, g.Host, scope, expires))}, "."), nil
}

// Verify returns what a token grants, if it is valid now for a request to a host, in canonical
// form, and an escaped path. The error is ErrInvalid. It takes the same time for every wrong
// signature.
func Verify(secrets []string, token, host, path string, now time.Time) (Grant, error) {
	g, signature, err := parse(token)
	if err != nil {
		return Grant{}, err
	}
	expires := strconv.FormatInt(g.Expires.Unix(), 10)
	signed := false
	for _, secret := range secrets {
		signed = hmac.Equal(signature, sum(secret, host, g.Scope, expires)) || signed
	}
	if !signed || !now.Before(g.Expires) || !within(g.Scope, path) {
		return Grant{}, ErrInvalid
	}
	g.Host = host
	return g, nil
}

// ScopeOf returns the scope that a token states, without verifying it; empty if it is
// malformed.
func ScopeOf(token string) string {
	g, _, err := parse(token)
	if err != nil {
		return ""
	}
	return g.Scope
}

func parse(token string) (g Grant, signature []byte, err error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 4 || parts[0] != version {
		return Grant{}, nil, ErrInvalid
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || expires <= 0 || strconv.FormatInt(expires, 10) != parts[1] {
		return Grant{}, nil, ErrInvalid
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return Grant{}, nil, ErrInvalid
	}
	scope, ok := canonical.Path(string(text))
	if signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[3]); err != nil || !ok || scope != string(text) || len(scope) > maxScope {
		return Grant{}, nil, ErrInvalid
	}
	return Grant{Scope: scope, Expires: time.Unix(expires, 0)}, signature, nil
}

// within reports whether a path is a scope or below it, however the origin reads the path.
func within(scope, path string) bool {
	path, ok := canonical.Path(path)
	if !ok || scope == "/" {
		return ok
	}
	below, ok := strings.CutPrefix(path, scope)
	return ok && isPlain(path) && (below == "" || strings.HasSuffix(scope, "/") || below[0] == '/')
}

// isPlain reports whether no server reads a canonical path as another one.
func isPlain(path string) bool {
	for _, odd := range []string{"//", "%2F", "%5C", ";", "%00"} {
		if strings.Contains(path, odd) {
			return false
		}
	}
	return !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// sum is the signature of a grant. The fields contain no newline.
func sum(secret, host, scope, expires string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "isr-draft-%s\n%s\n%s\n%s", version, host, scope, expires)
	return mac.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
