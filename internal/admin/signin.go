package admin

import (
	"net/http"
	"strings"
	"time"
)

// A SignIn is the input of a sign-in.
type SignIn struct {
	Token string `json:"token" doc:"The admin token, or the read token."`
}

func (SignIn) target() string { return "the console" }

// A SignOut is the input of a sign-out, which has no fields.
type SignOut struct{}

func (SignOut) target() string { return "the console" }

// A Session is a browser's session.
type Session struct {
	SignedIn    bool      `json:"signed_in" doc:"Whether the request belongs to a session."`
	Role        Role      `json:"role,omitempty" doc:"admin or read."`
	Token       string    `json:"token,omitempty" doc:"Fingerprint of the token, as in the log."`
	ExpiresAt   time.Time `json:"expires_at,omitzero" doc:"When the session ends at the latest."`
	IdleSeconds int64     `json:"idle_seconds,omitempty" doc:"After how long without a request it ends."`
}

// described returns the session as a response; nil is none.
func (s *session) described() Session {
	if s == nil {
		return Session{}
	}
	return Session{SignedIn: true, Role: s.role, Token: s.token, ExpiresAt: s.expiresAt.UTC(), IdleSeconds: int64(sessionIdle / time.Second)}
}

func (a *API) showSession() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/session", name: "showSession", limit: lookTime, public: true,
		summary: "Show whether a browser is signed in.",
	}, func(r *http.Request, _ struct{}) (Session, error) { return visitorOf(r).session.described(), nil })
}

func (a *API) signIn() operation {
	return exchanging(operation{
		method: http.MethodPost, path: "/-/session", name: "signIn", limit: lookTime, public: true,
		summary: "Sign in from the console.",
		details: "The response sets the cookie of a session, which ends two hours after its last request, after a day, or with the process. " +
			"From a browser on the API's own origin only, over HTTPS or on a loopback address.",
		problems: []int{http.StatusConflict},
	}, func(x *exchange, in SignIn) (Session, error) {
		v := visitorOf(x.r)
		if v.door == nil {
			return Session{}, &Error{Status: http.StatusConflict, Code: "no_sessions", Message: "the socket needs no session"}
		}
		secure, err := trustworthy(x.r)
		if err != nil {
			return Session{}, err
		}
		return v.door.signIn(x, v, in.Token, secure)
	})
}

// signIn exchanges a token for a session.
func (d *door) signIn(x *exchange, v visitor, secret string, secure bool) (Session, error) {
	role, fingerprint, ok := d.roleOf(secret)
	if !ok {
		return Session{}, d.wrongToken(x.r)
	}
	if v.session != nil {
		d.sessions.end(v.session)
	}
	value, begun := d.sessions.begin(role, fingerprint, secure, time.Now())
	setCookie(x.w, secure, value)
	x.visitor.role, x.visitor.token, x.visitor.via = role, fingerprint, "console"
	return begun.described(), nil
}

// trustworthy returns an error for a sign-in from elsewhere than a page of the API's origin,
// and for one whose token others on the network can read. secure: the browser uses HTTPS,
// perhaps to a proxy in front.
func trustworthy(r *http.Request) (secure bool, err error) {
	if !ownOrigin(r) {
		return false, &Error{
			Status: http.StatusForbidden, Code: "foreign", Message: "the request does not come from the console",
			Hint: "open the console in a browser; other clients send the token as Authorization: Bearer TOKEN",
		}
	}
	secure = r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
	if secure || isLoopback(r.Host) {
		return secure, nil
	}
	return false, &Error{
		Status: http.StatusForbidden, Code: "insecure", Message: "the console is open over plain HTTP, by which others on the network can read the token",
		Hint: "use HTTPS through a proxy, or a tunnel to the server: ssh -L 9180:127.0.0.1:9180 SERVER",
	}
}

func (a *API) signOut() operation {
	return exchanging(operation{
		method: http.MethodPost, path: "/-/session/end", name: "signOut", limit: lookTime, public: true,
		summary: "Sign out: end the session of the request.",
	}, func(x *exchange, _ SignOut) (Session, error) {
		if v := visitorOf(x.r); v.session != nil {
			v.door.sessions.end(v.session)
			setCookie(x.w, v.session.secure, "")
		}
		return Session{}, nil
	})
}
