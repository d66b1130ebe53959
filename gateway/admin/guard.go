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

// A Token is the secret of those who may use the API over the network. It does not
// keep the text, and shows only its fingerprint: it may be logged.
type Token struct {
	digest [sha256.Size]byte
}

// NewToken takes a secret: at least [MinToken] visible ASCII characters, at most
// 512. The error does not repeat it.
func NewToken(secret string) (Token, error) {
	if len(secret) < MinToken || len(secret) > maxToken {
		return Token{}, fmt.Errorf("the token has %d characters; expected between %d and %d, like those of: openssl rand -hex 32", len(secret), MinToken, maxToken)
	}
	for _, c := range []byte(secret) {
		if c <= ' ' || c > '~' {
			return Token{}, fmt.Errorf("the token has a character that is a space or not ASCII; expected visible ones, like those of: openssl rand -hex 32")
		}
	}
	return Token{sha256.Sum256([]byte(secret))}, nil
}

// String is the fingerprint: enough to tell tokens apart, of no use to guess one.
func (t Token) String() string { return hex.EncodeToString(t.digest[:4]) }

// admits compares digests, in constant time: neither the place of the first
// difference nor the length of the token can be measured.
func (t Token) admits(secret string) bool {
	digest := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// Guarded returns the API for a network: whoever asks bears the token. loopback
// says that it listens for this machine alone; then a request must also be
// addressed to this machine, by its address or as localhost. Pages in a browser are
// refused in any case, whatever they know: they have no business here, and a name
// that was made to lead to this machine (DNS rebinding) would let them in.
func (a *API) Guarded(t Token, loopback bool) http.Handler {
	return a.bounded(func(w http.ResponseWriter, r *http.Request) error {
		if err := foreign(r, loopback); err != nil {
			return err
		}
		v := t.identify(r)
		if v.wrong() {
			a.log.Warn("the admin API was asked with a wrong token", "remote", v.remote)
			return v.refusal
		}
		return a.answer(w, r, v)
	})
}

// foreign refuses what a page in a browser sends.
func foreign(r *http.Request, loopback bool) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
		return &Error{
			Status: http.StatusForbidden, Code: "browser", Message: "pages in a browser may not use the admin API",
			Hint: "ask from a program, or with the commands of isr",
		}
	}
	if loopback && !isLoopback(r.Host) {
		return &Error{
			Status: http.StatusForbidden, Code: "wrong_host", Message: fmt.Sprintf("this API is for its machine alone, and was asked as %q", r.Host),
			Hint: "ask it as 127.0.0.1 or localhost; a proxy in front must send such a Host",
		}
	}
	return nil
}

// isLoopback says whether the host of a request is this machine's own.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// A visitor is who asks.
type visitor struct {
	remote   string // an address
	token    string // the fingerprint, empty where none is needed
	admitted bool
	refusal  *Error // why not
}

// wrong says that a token was given, and is none of ours.
func (v visitor) wrong() bool { return v.refusal != nil && v.refusal.Code == "wrong_token" }

func (t Token) identify(r *http.Request) visitor {
	v := visitor{remote: r.RemoteAddr}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case r.Header.Get("Authorization") == "":
		v.refusal = &Error{
			Status: http.StatusUnauthorized, Code: "no_token", Message: "a token is needed",
			Hint: "send Authorization: Bearer TOKEN; the commands of isr take it from ISR_ADMIN_TOKEN",
		}
	case !strings.EqualFold(scheme, "Bearer") || !t.admits(strings.TrimLeft(secret, " ")):
		v.refusal = &Error{
			Status: http.StatusUnauthorized, Code: "wrong_token", Message: "the token is not that of this server",
			Hint: "it is in admin.token in the data folder, or in the server's ISR_ADMIN_TOKEN",
		}
	default:
		v.admitted, v.token = true, t.String()
	}
	return v
}

// challenge is the WWW-Authenticate of a refusal, RFC 6750.
func (e *Error) challenge() string {
	if e.Code == "wrong_token" {
		return `Bearer realm="isr", error="invalid_token"`
	}
	return `Bearer realm="isr"`
}

// visitorKey is the context's, for the visitor.
type visitorKey struct{}

func withVisitor(ctx context.Context, v visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// admitted says that whoever made a request may see everything.
func admitted(r *http.Request) bool {
	v, ok := r.Context().Value(visitorKey{}).(visitor)
	return ok && v.admitted
}
