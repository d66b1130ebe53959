package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of sessions.
const (
	// maxSessions bounds the sessions of a listener. One more ends the least recently used.
	maxSessions = 256
	// sessionIdle and sessionLife are how long a session lasts without a request, and at most.
	sessionIdle = 2 * time.Hour
	sessionLife = 24 * time.Hour
	// maxCookies bounds the cookies of a request that are tried: other servers on the same
	// host can set cookies of the same name. It is more than browsers keep of a host (Chromium
	// 180, Firefox 180), so that cookies of others cannot hide ours.
	maxCookies = 256
)

// The names of the cookie. Cookies are shared by all ports of a host: over plain HTTP, which is
// served to loopback addresses only, the cookie is limited to the API's paths, so that the
// site on another port of this machine does not receive it. Over HTTPS the prefix __Host-
// keeps other hosts of the domain from setting it, and requires the path /.
const (
	plainCookie  = "isr-session"
	secureCookie = "__Host-isr-session"
)

// A session is a browser that has signed in.
type session struct {
	role      Role
	token     string        // fingerprint
	secure    bool          // its cookie is secureCookie
	expiresAt time.Time     // at the latest
	ended     chan struct{} // closed when it has ended

	used time.Time // guarded by sessions.mu: the latest request
}

// liveLocked reports whether the session has not expired. Callers must hold sessions.mu.
func (s *session) liveLocked(now time.Time) bool {
	return now.Before(s.expiresAt) && now.Sub(s.used) < sessionIdle
}

// sessions are the sessions of a listener, in memory: a restart ends them. They are safe for
// concurrent use.
type sessions struct {
	mu sync.Mutex
	// byDigest is guarded by mu. The key is the digest of the cookie's value: the time of a
	// look-up reveals nothing about the value.
	byDigest map[[sha256.Size]byte]*session
}

func newSessions() *sessions { return &sessions{byDigest: make(map[[sha256.Size]byte]*session)} }

// begin returns the value of the cookie of a new session.
func (s *sessions) begin(role Role, token string, secure bool, now time.Time) (string, *session) {
	secret := rand.Text()
	begun := &session{role: role, token: token, secure: secure, expiresAt: now.Add(sessionLife), ended: make(chan struct{}), used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.byDigest) >= maxSessions {
		s.evictLocked(now)
	}
	s.byDigest[sha256.Sum256([]byte(secret))] = begun
	return secret, begun
}

// evictLocked ends the sessions that have expired, or else the least recently used one.
func (s *sessions) evictLocked(now time.Time) {
	var oldest [sha256.Size]byte
	before := len(s.byDigest)
	for digest, one := range s.byDigest {
		if !one.liveLocked(now) {
			s.endLocked(digest)
		} else if least, ok := s.byDigest[oldest]; !ok || one.used.Before(least.used) {
			oldest = digest
		}
	}
	if len(s.byDigest) == before {
		s.endLocked(oldest)
	}
}

func (s *sessions) endLocked(digest [sha256.Size]byte) {
	if one, ok := s.byDigest[digest]; ok {
		close(one.ended)
		delete(s.byDigest, digest)
	}
}

// find returns the session of a cookie, and counts the request as its latest. It returns nil
// if the session has ended.
func (s *sessions) find(c *http.Cookie, now time.Time) *session {
	digest := sha256.Sum256([]byte(c.Value))
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byDigest[digest]
	if !ok || one.secure != (c.Name == secureCookie) {
		return nil
	}
	if !one.liveLocked(now) {
		s.endLocked(digest)
		return nil
	}
	one.used = now
	return one
}

// lives reports whether a session has not ended.
func (s *sessions) lives(one *session, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.liveLocked(now)
}

// end ends a session.
func (s *sessions) end(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, one := range s.byDigest {
		if one == ended {
			s.endLocked(digest)
		}
	}
}

// sessionCookies returns the cookies of a request that may name a session.
func sessionCookies(r *http.Request) []*http.Cookie {
	var found []*http.Cookie
	for _, name := range []string{secureCookie, plainCookie} {
		found = append(found, r.CookiesNamed(name)...)
	}
	return found[:min(len(found), maxCookies)]
}

// bySession identifies the caller by the cookie of a request.
func (d *door) bySession(v visitor, cookies []*http.Cookie) visitor {
	for _, c := range cookies {
		if s := d.sessions.find(c, time.Now()); s != nil {
			v.admitted, v.role, v.token, v.via, v.session = true, s.role, s.token, "console", s
			return v
		}
	}
	v.refusal = &Error{
		Status: http.StatusUnauthorized, Code: "session_expired", Message: "the session has ended",
		Hint: "sign in again",
	}
	return v
}

// setCookie sends the cookie of a session; an empty value removes it.
func setCookie(w http.ResponseWriter, secure bool, value string) {
	c := &http.Cookie{Name: plainCookie, Value: value, Path: "/-/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife / time.Second)}
	if secure {
		c.Name, c.Path, c.Secure = secureCookie, "/", true
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

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
	Token       string    `json:"token,omitempty" doc:"Fingerprint of the token, as the log has it."`
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
