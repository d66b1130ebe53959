package admin_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/admin"
)

// A browser sends what a browser sends for a page of the API's own origin.
type browser struct {
	t      *testing.T
	client *http.Client
	url    string
	cookie *http.Cookie // nil if there is none
}

func (b *browser) do(method, path, body string, header http.Header) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		req.Header.Set("Origin", b.url)
		req.Header.Set("Content-Type", "application/json")
	}
	if b.cookie != nil {
		req.AddCookie(b.cookie)
	}
	for name, values := range header {
		switch {
		case name == "Host":
			req.Host = values[0]
		case values == nil:
			req.Header.Del(name)
		default:
			req.Header[name] = values
		}
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = res.Body.Close()
	var failed struct{ Error admin.Error }
	_ = json.Unmarshal(text, &failed) // other responses have no code
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			b.cookie = nil
		} else {
			b.cookie = c
		}
	}
	return answer{status: res.StatusCode, header: res.Header, text: string(text), code: failed.Error.Code}
}

// signIn signs in with a token.
func (b *browser) signIn(token string) answer {
	b.t.Helper()
	return b.do("POST", "/-/session", fmt.Sprintf(`{"token":%q}`, token), nil)
}

func (f *fixture) browser(token string) *browser {
	f.t.Helper()
	b := &browser{t: f.t, client: f.shut.Client(), url: f.shut.URL}
	if token != "" {
		if a := b.signIn(token); a.status != 200 || b.cookie == nil {
			f.t.Fatalf("sign-in: %d %s", a.status, a.text)
		}
	}
	return b
}

func TestSignIn(t *testing.T) {
	f := newFixture(t)
	b := f.browser("")
	if a := b.do("GET", "/-/session", "", nil); a.status != 200 || strings.TrimSpace(a.text) != `{"signed_in":false}` {
		t.Errorf("before: %d %s", a.status, a.text)
	}
	if a := b.do("GET", "/-/overview", "", nil); a.code != "no_token" {
		t.Errorf("without a session: %d %s", a.status, a.text)
	}
	if a := b.signIn("a-wrong-token-of-someone"); a.code != "wrong_token" || b.cookie != nil {
		t.Errorf("wrong token: %d %s", a.status, a.text)
	}
	a := b.signIn(secret)
	set := a.header.Get("Set-Cookie")
	if a.status != 200 || !strings.HasPrefix(set, "isr-session=") || !strings.HasSuffix(set, "; Path=/-/; Max-Age=86400; HttpOnly; SameSite=Strict") {
		t.Fatalf("%d %s, Set-Cookie: %s", a.status, a.text, set)
	}
	if strings.Contains(a.text+set, secret) || len(b.cookie.Value) < 26 {
		t.Errorf("the session tells the token, or is short: %s %s", a.text, set)
	}
	if a := b.do("GET", "/-/session", "", nil); !strings.Contains(a.text, `"role":"admin"`) {
		t.Errorf("signed in: %s", a.text)
	}
	if a := b.do("POST", "/-/purge", `{"targets":[{"tag":"a"}]}`, nil); a.status != 200 {
		t.Errorf("purge: %d %s", a.status, a.text)
	}
	old := b.cookie
	if b.signIn(secret); b.cookie == nil || b.cookie.Value == old.Value {
		t.Error("a second sign-in keeps the session")
	}
	b.cookie = old
	if a := b.do("GET", "/-/overview", "", nil); a.code != "session_expired" {
		t.Errorf("the earlier session: %d %s", a.status, a.text)
	}
	b = f.browser(secret)
	kept := b.cookie
	if a := b.do("POST", "/-/session/end", "{}", nil); a.status != 200 || b.cookie != nil {
		t.Errorf("sign-out: %d %s", a.status, a.text)
	}
	b.cookie = kept
	if a := b.do("GET", "/-/overview", "", nil); a.code != "session_expired" {
		t.Errorf("after sign-out: %d %s", a.status, a.text)
	}
	if log := f.log.String(); strings.Contains(log, secret) || strings.Contains(log, kept.Value) {
		t.Error("the log has the token or the cookie")
	}
}

// What pages of others can make a browser send, with the cookie of an operator.
func TestAttacksOnSession(t *testing.T) {
	f := newFixture(t)
	const tag = `{"targets":[{"tag":"a"}]}`
	none := func(names ...string) http.Header {
		h := http.Header{}
		for _, name := range names {
			h[name] = nil
		}
		return h
	}
	with := func(h http.Header, name, value string) http.Header {
		h[name] = []string{value}
		return h
	}
	host := strings.TrimPrefix(f.shut.URL, "http://")
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		status             int
		code               string
	}{
		"own page":                              {"GET", "/-/overview", "", nil, 200, ""},
		"own page, change":                      {"POST", "/-/purge", tag, nil, 200, ""},
		"own page, old browser":                 {"POST", "/-/purge", tag, none("Sec-Fetch-Site"), 200, ""},
		"link on another site":                  {"GET", "/-/overview", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "foreign"},
		"script tag on another port":            {"GET", "/-/overview", "", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403, "foreign"},
		"typed address":                         {"GET", "/-/overview", "", http.Header{"Sec-Fetch-Site": {"none"}}, 403, "foreign"},
		"two answers to one question":           {"GET", "/-/overview", "", http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, 403, "foreign"},
		"no word of the origin":                 {"GET", "/-/overview", "", none("Sec-Fetch-Site"), 403, "foreign"},
		"form on another site":                  {"POST", "/-/purge", tag, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403, "foreign"},
		"form on another port":                  {"POST", "/-/purge", tag, http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://127.0.0.1:1"}}, 403, "foreign"},
		"form of an old browser, another port":  {"POST", "/-/purge", tag, with(none("Sec-Fetch-Site"), "Origin", "http://127.0.0.1:1"), 403, "foreign"},
		"form of an old browser, another host":  {"POST", "/-/purge", tag, with(none("Sec-Fetch-Site"), "Origin", "https://evil.example"), 403, "foreign"},
		"origin with our host in it":            {"POST", "/-/purge", tag, with(none("Sec-Fetch-Site"), "Origin", "http://evil.example/"+host), 403, "foreign"},
		"sandboxed frame of an old browser":     {"POST", "/-/purge", tag, with(none("Sec-Fetch-Site"), "Origin", "null"), 403, "foreign"},
		"two origins":                           {"POST", "/-/purge", tag, http.Header{"Sec-Fetch-Site": nil, "Origin": {f.shut.URL, "https://evil.example"}}, 403, "foreign"},
		"form, as plain text":                   {"POST", "/-/purge", tag, http.Header{"Content-Type": {"text/plain"}}, 415, "not_json"},
		"rebound name":                          {"GET", "/-/overview", "", http.Header{"Host": {"evil.example:9180"}}, 403, "wrong_host"},
		"rebound name, change":                  {"POST", "/-/purge", tag, http.Header{"Host": {"evil.example"}, "Origin": {"http://evil.example"}}, 403, "wrong_host"},
		"rebound name, sign-in":                 {"POST", "/-/session", `{"token":"` + secret + `"}`, http.Header{"Host": {"evil.example"}, "Origin": {"http://evil.example"}}, 403, "wrong_host"},
		"rebound name, console":                 {"GET", "/", "", http.Header{"Host": {"evil.example"}}, 403, "wrong_host"},
		"sign-in from another site":             {"POST", "/-/session", `{"token":"` + secret + `"}`, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403, "foreign"},
		"sign-out from another site":            {"POST", "/-/session/end", "{}", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403, "foreign"},
		"a session and a token from a web page": {"GET", "/-/overview", "", http.Header{"Authorization": {"Bearer " + secret}, "Origin": {f.shut.URL}}, 403, "browser"},
		"a session and a wrong token":           {"GET", "/-/overview", "", http.Header{"Authorization": {"Bearer of-a-wrong-token-it-is"}}, 401, "wrong_token"},
		"tossed cookie before ours":             {"GET", "/-/overview", "", http.Header{"Cookie": {"isr-session=of-another-port; isr-session=OURS"}}, 200, ""},
		"tossed cookies instead of ours":        {"GET", "/-/overview", "", http.Header{"Cookie": {"isr-session=a; isr-session=b; isr-session="}}, 401, "session_expired"},
		"as many as a browser keeps":            {"GET", "/-/overview", "", http.Header{"Cookie": {strings.Repeat("isr-session=a; ", 180) + "isr-session=OURS"}}, 200, ""},
		"more tossed cookies than that":         {"GET", "/-/overview", "", http.Header{"Cookie": {strings.Repeat("isr-session=a; ", 256) + "isr-session=OURS"}}, 401, "session_expired"},
		"a plain session as a secure one":       {"GET", "/-/overview", "", http.Header{"Cookie": {"__Host-isr-session=OURS"}}, 401, "session_expired"},
		"the digest of a token as a session":    {"GET", "/-/overview", "", http.Header{"Cookie": {"isr-session=" + fingerprint(t)}}, 401, "session_expired"},
	} {
		b := f.browser(secret)
		for i, value := range c.header["Cookie"] {
			c.header["Cookie"][i] = strings.ReplaceAll(value, "OURS", b.cookie.Value)
			b.cookie = nil
		}
		if a := b.do(c.method, c.path, c.body, c.header); a.status != c.status || a.code != c.code {
			t.Errorf("%s: %d %s; want %d %s", name, a.status, a.text, c.status, c.code)
		} else if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the response is for other origins", name)
		}
	}
}

// The read token sees, and changes nothing.
func TestReadOnly(t *testing.T) {
	f := newFixture(t)
	b := f.browser(readSecret)
	if a := b.do("GET", "/-/session", "", nil); !strings.Contains(a.text, `"role":"read"`) {
		t.Errorf("session: %s", a.text)
	}
	paths, _ := f.doc["paths"].(map[string]any)
	changes := 0
	for path, of := range paths {
		methods, _ := of.(map[string]any)
		if _, post := methods["post"]; !post || strings.HasPrefix(path, "/-/session") || path == "/-/explain" {
			continue
		}
		changes++
		for name, a := range map[string]answer{
			"session": b.do("POST", path, `{"url":"example.com/"}`, nil),
			"token":   f.bearer("POST", path, `{"url":"example.com/"}`, readSecret),
		} {
			if a.status != 403 || a.code != "read_only" {
				t.Errorf("%s by %s: %d %s", path, name, a.status, a.text)
			}
		}
	}
	if changes < 10 {
		t.Errorf("%d operations change something", changes)
	}
	for path, want := range map[string]int{
		"/-/overview": 200, "/-/pages": 200, "/-/pages/search": 200, "/-/page?key=example.com/": 200, "/-/nodes": 200, "/-/purges": 200, "/-/leases": 200,
		"/-/audit": 403, "/-/process": 403, "/-/quarantine/diff?key=example.com/": 403, "/-/body?key=example.com/&generation=quarantined": 403,
	} {
		if a := f.bearer("GET", path, "", readSecret); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	for body, want := range map[string]int{`{"url":"http://example.com/"}`: 409, `{"url":"http://example.com/","fetch":true}`: 403} {
		if a := f.bearer("POST", "/-/explain", body, readSecret); a.status != want {
			t.Errorf("explain %s: %d %s", body, a.status, a.text)
		}
	}
	if lines := f.auditLines(); len(lines) != 1 || lines[0].Audit.Action != "signIn" {
		t.Errorf("audit: %+v", lines)
	}
	if a := b.do("POST", "/-/session/end", "{}", nil); a.status != 200 {
		t.Errorf("sign-out: %d %s", a.status, a.text)
	}
}

// bearer sends a request with a token.
func (f *fixture) bearer(method, path, body, token string) answer {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.shut.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return f.send(req)
}

// Over the network the console needs HTTPS; its cookie is bound to the host then.
func TestSignInOverNetwork(t *testing.T) {
	f := newFixture(t)
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.api.Guarded(admin.Guard{Token: token}))
	defer server.Close()
	b := &browser{t: t, client: server.Client(), url: server.URL}
	sign := func(header http.Header) answer {
		b.cookie = nil
		return b.do("POST", "/-/session", `{"token":"`+secret+`"}`, header)
	}
	plain := http.Header{"Host": {"10.0.0.5:9180"}, "Origin": {"http://10.0.0.5:9180"}, "Sec-Fetch-Site": nil} // browsers send it to no such address
	if a := sign(plain); a.status != 403 || a.code != "insecure" {
		t.Errorf("plain HTTP: %d %s", a.status, a.text)
	}
	secure := http.Header{"Host": {"isr.example.com"}, "Origin": {"https://isr.example.com"}}
	a := sign(secure)
	if set := a.header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-isr-session=") || !strings.HasSuffix(set, "; Path=/; Max-Age=86400; HttpOnly; Secure; SameSite=Strict") {
		t.Fatalf("behind a proxy with HTTPS: %d %s, Set-Cookie: %s", a.status, a.text, set)
	}
	if a := b.do("GET", "/-/session", "", secure); !strings.Contains(a.text, `"signed_in":true`) {
		t.Errorf("session: %s", a.text)
	}
	b.cookie.Name = "isr-session" // as a server on another port can set it
	if a := b.do("GET", "/-/overview", "", secure); a.code != "session_expired" {
		t.Errorf("a secure session without its prefix: %d %s", a.status, a.text)
	}
	withTLS := httptest.NewUnstartedServer(f.api.Guarded(admin.Guard{Token: token}))
	withTLS.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	withTLS.StartTLS()
	defer withTLS.Close()
	b = &browser{t: t, client: withTLS.Client(), url: withTLS.URL}
	if a := b.signIn(secret); !strings.HasPrefix(a.header.Get("Set-Cookie"), "__Host-isr-session=") {
		t.Errorf("with TLS: %d %s", a.status, a.text)
	}
	down := http.Header{"Sec-Fetch-Site": nil, "Origin": {"http://" + strings.TrimPrefix(withTLS.URL, "https://")}}
	if a := b.do("POST", "/-/purge", `{"targets":[{"tag":"a"}]}`, down); a.code != "foreign" {
		t.Errorf("a page of the same host over plain HTTP: %d %s", a.status, a.text)
	}
}

// piped returns a browser of an API, in virtual time.
func piped(t *testing.T, api http.Handler) *browser {
	t.Helper()
	conn := dial(t, api)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, client: &http.Client{Transport: transport}, url: "http://127.0.0.1:9180"}
}

func TestSessionEnds(t *testing.T) {
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, slowAPI(t, slow{}).Guarded(admin.Guard{Token: token, Loopback: true}))
		lives := func() bool { return strings.Contains(b.do("GET", "/-/session", "", nil).text, `"signed_in":true`) }
		b.signIn(secret)
		for range 11 { // 22 hours less a minute each
			time.Sleep(2*time.Hour - time.Minute)
			if !lives() {
				t.Fatal("a session that is used has ended")
			}
		}
		time.Sleep(2*time.Hour + time.Minute)
		if lives() {
			t.Error("a session that was idle for two hours lives")
		}
		b.signIn(secret)
		began := time.Now()
		for lives() {
			time.Sleep(time.Hour)
		}
		if took := time.Since(began); took != 24*time.Hour {
			t.Errorf("a session that is used ended after %s", took)
		}
	})
}

// The number of sessions is bounded: the least recently used ends.
func TestManySessions(t *testing.T) {
	f := newFixture(t)
	first, second := f.browser(secret), f.browser(secret)
	for range 255 {
		first.do("GET", "/-/session", "", nil)
		f.browser(secret)
	}
	if a := first.do("GET", "/-/overview", "", nil); a.status != 200 {
		t.Errorf("the session that was used last: %d %s", a.status, a.text)
	}
	if a := second.do("GET", "/-/overview", "", nil); a.code != "session_expired" {
		t.Errorf("the session that was used least: %d %s", a.status, a.text)
	}
}

// Wrong tokens of a client are limited, and logged no more often; the right one works in spite of
// them, since all clients behind a proxy have its address.
func TestGuesses(t *testing.T) {
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, from("203.0.113.7:1", slowAPI(t, slow{}).Guarded(admin.Guard{Token: token, Loopback: true})))
		for i := range 10 {
			if a := b.signIn(fmt.Sprint("a-wrong-token-", i)); a.code != "wrong_token" {
				t.Fatalf("guess %d: %d %s", i, a.status, a.text)
			}
		}
		bearer := func(secret string) answer {
			return b.do("GET", "/-/page?key=example.com/", "", http.Header{"Authorization": {"Bearer " + secret}, "Sec-Fetch-Site": nil})
		}
		for name, a := range map[string]answer{"sign-in": b.signIn("one-more-wrong-token"), "bearer token": bearer("one-more-wrong-token")} {
			if a.status != 429 || a.code != "too_many_attempts" || a.header.Get("Retry-After") != "6" {
				t.Errorf("%s after ten guesses: %d %s, Retry-After: %s", name, a.status, a.text, a.header.Get("Retry-After"))
			}
		}
		if a := bearer(secret); a.code == "too_many_attempts" || a.code == "wrong_token" {
			t.Errorf("the right bearer token: %d %s", a.status, a.text)
		}
		if a := b.signIn(secret); a.status != 200 {
			t.Errorf("the right token: %d %s", a.status, a.text)
		}
		time.Sleep(6 * time.Second)
		if a := b.signIn("one-more-wrong-token"); a.code != "wrong_token" {
			t.Errorf("a wrong one, six seconds later: %d %s", a.status, a.text)
		}
	})
}

// from serves requests as if they came from an address.
func from(remote string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = remote
		next.ServeHTTP(w, r)
	})
}

// The console's files need no session, and come with a policy that runs only these files.
func TestConsoleFiles(t *testing.T) {
	f := newFixture(t)
	b := f.browser("")
	a := b.do("GET", "/pages", "", http.Header{"Sec-Fetch-Site": {"none"}})
	if a.status != 200 || a.text != "console /pages" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if a := b.do("GET", "/metrics", "", nil); a.code != "no_token" {
		t.Errorf("metrics: %d %s", a.status, a.text)
	}
}
