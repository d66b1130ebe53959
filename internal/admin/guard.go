package admin

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A Role is what a caller may do.
type Role string

// The roles.
const (
	RoleAdmin Role = "admin" // everything
	RoleRead  Role = "read"  // GET, without the operations that only RoleAdmin may see
)

// A Guard declares who may use the API over a network.
type Guard struct {
	// Token is the token of RoleAdmin.
	Token Token
	// ReadToken is the token of RoleRead. Nil: there is none.
	ReadToken *Token
	// Loopback: the listener is on a loopback address, and the Host of a request must be a
	// loopback address or localhost too, against DNS rebinding.
	Loopback bool
	// Console serves the paths outside /-/ that are no operations, without authentication.
	// Nil: there are none.
	Console http.Handler
}

// Guarded returns the API for a network. A request needs a bearer token, or the cookie of a
// session, which the console gets for a token (POST /-/session). Web pages may not use the API
// even with a token; a cookie counts only in requests that come from the API's own origin.
func (a *API) Guarded(g Guard) http.Handler {
	d := &door{Guard: g, api: a, sessions: newSessions(), attempts: newAttempts()}
	api := a.bounded(func(w http.ResponseWriter, r *http.Request) error {
		if err := d.hostError(r); err != nil {
			return err
		}
		v, err := d.identify(r)
		if err != nil {
			return err
		}
		return a.answer(w, r, v)
	})
	if g.Console == nil {
		return api
	}
	static := a.bounded(d.serveConsole)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/-/") || a.routes[r.URL.Path] != nil {
			api.ServeHTTP(w, r)
			return
		}
		static.ServeHTTP(w, r)
	})
}

// A door is a guarded listener.
type door struct {
	Guard
	api      *API
	sessions *sessions
	attempts *attempts
}

// consolePolicy is the Content-Security-Policy of the console, unless it sets a stricter one.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// serveConsole serves a file of the console, which contains nothing secret.
func (d *door) serveConsole(w http.ResponseWriter, r *http.Request) error {
	if err := d.hostError(r); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	d.Console.ServeHTTP(w, r)
	return nil
}

// hostError returns an error for a request with a Host that the listener cannot have.
func (d *door) hostError(r *http.Request) error {
	if !d.Loopback || isLoopback(r.Host) {
		return nil
	}
	return &Error{
		Status: http.StatusForbidden, Code: "wrong_host", Message: fmt.Sprintf("the API listens on a loopback address and does not serve the host %q", r.Host),
		Hint: "use the host 127.0.0.1 or localhost; a proxy in front must send such a Host",
	}
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

// foreign returns an error for requests of web pages.
func foreign(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Header.Get("Origin") == "" && site != "cross-site" && site != "same-site" {
		return nil
	}
	return &Error{
		Status: http.StatusForbidden, Code: "browser", Message: "web pages may not use the admin API",
		Hint: "use another HTTP client, or the commands of isr",
	}
}

// ownOrigin reports whether a browser states that a request comes from a page of the same
// origin. Browsers send Sec-Fetch-Site to HTTPS and loopback addresses; before 2023 some had
// only Origin, and no Origin in a GET.
func ownOrigin(r *http.Request) bool {
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 0 {
		return len(site) == 1 && site[0] == "same-origin"
	}
	origin := r.Header.Values("Origin")
	if len(origin) != 1 {
		return false
	}
	scheme, host, ok := strings.Cut(origin[0], "://")
	return ok && strings.EqualFold(host, r.Host) && (scheme == "https" || scheme == "http" && r.TLS == nil)
}

// A visitor is the caller of a request.
type visitor struct {
	remote   string // an address
	token    string // fingerprint; empty if no token is needed
	role     Role
	via      string // socket, token or console
	admitted bool
	refusal  *Error // why it is not admitted

	door    *door    // nil on the socket
	session *session // nil if there is none
}

// identify returns the caller of a request: by its token, or by its cookie. An error refuses
// public operations too.
func (d *door) identify(r *http.Request) (visitor, error) {
	v := visitor{remote: r.RemoteAddr, door: d}
	if r.Header.Get("Authorization") != "" {
		if err := foreign(r); err != nil {
			return v, err
		}
		return d.byToken(v, r)
	}
	if cookies := sessionCookies(r); len(cookies) > 0 {
		if !ownOrigin(r) {
			return v, errForeign()
		}
		return d.bySession(v, cookies), nil
	}
	if !ownOrigin(r) {
		if err := foreign(r); err != nil {
			return v, err
		}
	}
	v.refusal = errNoToken()
	return v, nil
}

func errForeign() *Error {
	return &Error{
		Status: http.StatusForbidden, Code: "foreign", Message: "the request has the cookie of the console, and does not come from it",
		Hint: "open the console in a browser, over HTTPS or on a loopback address; other clients send a token",
	}
}

func errNoToken() *Error {
	return &Error{
		Status: http.StatusUnauthorized, Code: "no_token", Message: "the request has no token",
		Hint: "send Authorization: Bearer TOKEN; the commands of isr read it from ISR_ADMIN_TOKEN",
	}
}

func errWrongToken() *Error {
	return &Error{
		Status: http.StatusUnauthorized, Code: "wrong_token", Message: "wrong token",
		Hint: "the token is in admin.token in the data folder of the server, or in its ISR_ADMIN_TOKEN",
	}
}

// byToken identifies the caller by its bearer token.
func (d *door) byToken(v visitor, r *http.Request) (visitor, error) {
	secret, ok := bearer(r)
	if ok {
		v.role, v.token, ok = d.roleOf(secret)
	}
	if !ok {
		return v, d.wrongToken(r)
	}
	v.admitted, v.via = true, "token"
	return v, nil
}

// wrongToken returns the error for a wrong token, and logs it unless there are too many of its
// client. The limit bounds the log, and makes programs with an old token stop. It
// never holds for the right token: otherwise all clients behind a proxy, which share an address,
// could be locked out by any of them. What keeps a token from being guessed is its length.
func (d *door) wrongToken(r *http.Request) error {
	now := time.Now()
	if wait := d.attempts.wait(r.RemoteAddr, now); wait > 0 {
		return errTooManyAttempts(wait)
	}
	d.attempts.fail(r.RemoteAddr, now)
	d.api.log.Warn("admin request with wrong token", "remote", r.RemoteAddr)
	return errWrongToken()
}

// roleOf returns the role of a secret, and the fingerprint of its token. Both tokens are
// compared, so that the time does not reveal which one is near.
func (d *door) roleOf(secret string) (role Role, fingerprint string, ok bool) {
	full := d.Token.admits(secret)
	read := d.ReadToken != nil && d.ReadToken.admits(secret)
	switch {
	case full:
		return RoleAdmin, d.Token.String(), true
	case read:
		return RoleRead, d.ReadToken.String(), true
	}
	return "", "", false
}

// bearer returns the secret of a request's Authorization field.
func bearer(r *http.Request) (secret string, ok bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimLeft(secret, " "), strings.EqualFold(scheme, "Bearer")
}

// permits returns an error for an operation that a role may not execute.
func (v visitor) permits(op operation) error {
	if v.role != RoleRead || op.public || !op.changes() && !op.adminOnly {
		return nil
	}
	return &Error{
		Status: http.StatusForbidden, Code: "read_only", Message: "this token may only read, and not use " + op.name,
		Hint: "use the admin token",
	}
}

// visitorKey is the context key of the visitor.
type visitorKey struct{}

func withVisitor(ctx context.Context, v visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// visitorOf returns the caller of a request.
func visitorOf(r *http.Request) visitor {
	v, _ := r.Context().Value(visitorKey{}).(visitor)
	return v
}

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

// Bounds of wrong tokens: wrongTokens of a client are logged and answered as wrong, and one more
// each wrongTokenEvery. Others get 429.
const (
	wrongTokens     = 10
	wrongTokenEvery = 6 * time.Second
	// maxClients bounds the clients that are remembered.
	maxClients = 4096
)

// attempts limits wrong tokens by client: an IPv4 address, or a /64 network of IPv6. It is safe
// for concurrent use. Each call takes the same time, however many clients there are: an attacker with many addresses must not
// cost the server more than it spends.
type attempts struct {
	mu      sync.Mutex
	clients map[netip.Prefix]*list.Element // of order; guarded by mu
	order   list.List                      // of *attempting, the client with the latest wrong token last; guarded by mu
}

// An attempting client has sent wrong tokens.
type attempting struct {
	client netip.Prefix
	full   time.Time // when it will have all its attempts again (the generic cell rate algorithm)
}

func newAttempts() *attempts { return &attempts{clients: make(map[netip.Prefix]*list.Element)} }

// clientOf returns the network of a remote address; invalid ones share one.
func clientOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // bits are valid for the address
	return network
}

// wait returns how long a client must wait before it may send another wrong token; 0 for not.
func (a *attempts) wait(remote string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.clients[clientOf(remote)]
	if known == nil {
		return 0
	}
	return max(known.Value.(*attempting).full.Sub(now)-(wrongTokens-1)*wrongTokenEvery, 0) //nolint:forcetypeassert // order has no others
}

// fail counts a wrong token of a client. Beyond maxClients it forgets the client whose latest one is the oldest.
func (a *attempts) fail(remote string, now time.Time) {
	client := clientOf(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.clients[client]
	switch {
	case known != nil:
		a.order.MoveToBack(known)
	case len(a.clients) < maxClients:
		known = a.order.PushBack(&attempting{client: client})
	default:
		known = a.order.Front()
		delete(a.clients, known.Value.(*attempting).client) //nolint:forcetypeassert // order has no others
		known.Value = &attempting{client: client}
		a.order.MoveToBack(known)
	}
	a.clients[client] = known
	one := known.Value.(*attempting) //nolint:forcetypeassert // order has no others
	if one.full.Before(now) {
		one.full = now
	}
	one.full = one.full.Add(wrongTokenEvery)
}

func errTooManyAttempts(wait time.Duration) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: "too_many_attempts", RetryAfter: wait,
		Message: "too many wrong tokens from this address", Hint: "correct the token; the right one is accepted at once",
	}
}
