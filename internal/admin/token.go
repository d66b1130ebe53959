package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
)

// Bounds of a token, in bytes.
const (
	MinToken = 16
	maxToken = 512
)

// A Token is the bearer token of the API. It stores only a digest and prints as a
// fingerprint, so that it may be logged.
type Token struct {
	digest [sha256.Size]byte
}

// NewToken returns the token of a secret: [MinToken] to 512 visible ASCII characters. The
// error does not contain the secret.
func NewToken(secret string) (Token, error) {
	if len(secret) < MinToken || len(secret) > maxToken {
		return Token{}, fmt.Errorf("the token has %d characters; expected between %d and %d, like the output of: openssl rand -hex 32", len(secret), MinToken, maxToken)
	}
	for _, c := range []byte(secret) {
		if c <= ' ' || c > '~' {
			return Token{}, fmt.Errorf("the token has a space or a character that is not visible ASCII; expected one like the output of: openssl rand -hex 32")
		}
	}
	return Token{sha256.Sum256([]byte(secret))}, nil
}

// String returns the fingerprint: the first four bytes of the digest, in hex.
func (t Token) String() string { return hex.EncodeToString(t.digest[:4]) }

// admits reports whether a secret is the token's. It compares digests in constant
// time, which reveals neither the first difference nor the length.
func (t Token) admits(secret string) bool {
	digest := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// challenge returns the WWW-Authenticate header of a 401 (RFC 6750).
func (e *Error) challenge() string {
	if e.Code == "wrong_token" {
		return `Bearer realm="isr", error="invalid_token"`
	}
	return `Bearer realm="isr"`
}
