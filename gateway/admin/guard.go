package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
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

// admits reports whether a secret is that of the token. It compares digests in constant
// time, which reveals neither the first difference nor the length.
func (t Token) admits(secret string) bool {
	digest := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// Guarded returns the API for a network: requests need the bearer token. If loopback, the
// listener is on a loopback address, and the Host of a request must be a loopback address
// or localhost too. Requests of web pages are refused even with the token, against DNS
// rebinding.
func (a *API) Guarded(t Token, loopback bool) http.Handler {
	return a.bounded(func(w http.ResponseWriter, r *http.Request) error {
		if err := foreign(r, loopback); err != nil {
			return err
		}
		v := t.identify(r)
		if v.wrong() {
			a.log.Warn("admin request with wrong token", "remote", v.remote)
			return v.refusal
		}
		return a.answer(w, r, v)
	})
}

// foreign returns an error for requests of web pages.
func foreign(r *http.Request, loopback bool) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
		return &Error{
			Status: http.StatusForbidden, Code: "browser", Message: "web pages may not use the admin API",
			Hint: "use another HTTP client, or the commands of isr",
		}
	}
	if loopback && !isLoopback(r.Host) {
		return &Error{
			Status: http.StatusForbidden, Code: "wrong_host", Message: fmt.Sprintf("the API listens on a loopback address and does not serve the host %q", r.Host),
			Hint: "use the host 127.0.0.1 or localhost; a proxy in front must send such a Host",
		}
	}
	return nil
}

// isLoopback reports whether the host of a request is localhost or a loopback address.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// A visitor is the caller of a request.
type visitor struct {
	remote   string // an address
	token    string // fingerprint; empty if no token is needed
	admitted bool
	refusal  *Error // why it is not admitted
}

// wrong reports whether the request has a wrong token, rather than none.
func (v visitor) wrong() bool { return v.refusal != nil && v.refusal.Code == "wrong_token" }

func (t Token) identify(r *http.Request) visitor {
	v := visitor{remote: r.RemoteAddr}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case r.Header.Get("Authorization") == "":
		v.refusal = &Error{
			Status: http.StatusUnauthorized, Code: "no_token", Message: "the request has no token",
			Hint: "send Authorization: Bearer TOKEN; the commands of isr read it from ISR_ADMIN_TOKEN",
		}
	case !strings.EqualFold(scheme, "Bearer") || !t.admits(strings.TrimLeft(secret, " ")):
		v.refusal = &Error{
			Status: http.StatusUnauthorized, Code: "wrong_token", Message: "wrong token",
			Hint: "the token is in admin.token in the data folder of the server, or in its ISR_ADMIN_TOKEN",
		}
	default:
		v.admitted, v.token = true, t.String()
	}
	return v
}

// challenge returns the WWW-Authenticate header of a 401 (RFC 6750).
func (e *Error) challenge() string {
	if e.Code == "wrong_token" {
		return `Bearer realm="isr", error="invalid_token"`
	}
	return `Bearer realm="isr"`
}

// visitorKey is the context key of the visitor.
type visitorKey struct{}

func withVisitor(ctx context.Context, v visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// admitted reports whether the caller of a request is authorized.
func admitted(r *http.Request) bool {
	v, ok := r.Context().Value(visitorKey{}).(visitor)
	return ok && v.admitted
}
