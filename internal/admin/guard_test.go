package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/admin"
)

func TestTokens(t *testing.T) {
	for _, bad := range []string{"", "fifteen-letters", "with a space in it", "with-a-tab\t-in-it", "umlaute-sind-böse", strings.Repeat("x", 513)} {
		_, err := admin.NewToken(bad)
		if err == nil {
			t.Errorf("%q is accepted", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error tells the token: %v", err)
		}
	}
	token, err := admin.NewToken(secret)
	if err != nil || strings.Contains(secret, token.String()) || len(token.String()) != 8 {
		t.Errorf("%v, %v", token, err)
	}
}

func TestGuard(t *testing.T) {
	f := newFixture(t)
	right := http.Header{"Authorization": {"Bearer " + secret}}
	with := func(name, value string) http.Header {
		h := right.Clone()
		h.Set(name, value)
		return h
	}
	for name, c := range map[string]struct {
		header http.Header
		host   string
		status int
		code   string
	}{
		"right":               {right, "", 200, ""},
		"another case":        {with("Authorization", "bearer "+secret), "", 200, ""},
		"no token":            {nil, "", 401, "no_token"},
		"wrong token":         {with("Authorization", "Bearer correct-horse-batterx"), "", 401, "wrong_token"},
		"half a token":        {with("Authorization", "Bearer "+secret[:16]), "", 401, "wrong_token"},
		"more than a token":   {with("Authorization", "Bearer "+secret+"x"), "", 401, "wrong_token"},
		"the fingerprint":     {with("Authorization", "Bearer "+fingerprint(t)), "", 401, "wrong_token"},
		"an empty token":      {with("Authorization", "Bearer "), "", 401, "wrong_token"},
		"another scheme":      {with("Authorization", "Basic "+secret), "", 401, "wrong_token"},
		"no scheme":           {with("Authorization", secret), "", 401, "wrong_token"},
		"a page":              {with("Origin", "http://evil.example"), "", 403, "browser"},
		"a page of ours":      {with("Origin", "null"), "", 403, "browser"},
		"an image":            {with("Sec-Fetch-Site", "cross-site"), "", 403, "browser"},
		"another port's page": {with("Sec-Fetch-Site", "same-site"), "", 403, "browser"},
		"typed by a person":   {with("Sec-Fetch-Site", "none"), "", 200, ""},
		"rebound name":        {right, "evil.example:9180", 403, "wrong_host"},
		"name like ours":      {right, "localhost.evil.example", 403, "wrong_host"},
		"address of a net":    {right, "192.168.0.1:9180", 403, "wrong_host"},
		"localhost":           {right, "LOCALHOST:9180", 200, ""},
		"localhost, bare":     {right, "localhost", 200, ""},
		"another loopback":    {right, "127.8.8.8:9180", 200, ""},
		"IPv6":                {right, "[::1]:9180", 200, ""},
		"IPv6, bare":          {right, "[::1]", 200, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.shut.URL+"/-/page?key=example.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != nil {
			req.Header = c.header
		}
		if c.host != "" {
			req.Host = c.host
		}
		a := f.send(req)
		if a.status != c.status || a.code != c.code {
			t.Errorf("%s: %d %s; want %d %s", name, a.status, a.text, c.status, c.code)
		}
		if challenge := a.header.Get("WWW-Authenticate"); (a.status == 401) != strings.HasPrefix(challenge, "Bearer realm=") {
			t.Errorf("%s: %d with WWW-Authenticate: %q", name, a.status, challenge)
		}
	}
	if strings.Contains(f.log.String(), secret) {
		t.Errorf("the log has the token: %s", f.log)
	}
	if !strings.Contains(f.log.String(), "wrong token") {
		t.Error("the log does not have those who tried")
	}
}

func fingerprint(t *testing.T) string {
	t.Helper()
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Repeat(token.String(), 4)
}

// A guard for a network accepts any host, but still refuses web pages.
func TestGuardOnNetwork(t *testing.T) {
	f := newFixture(t)
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.api.Guarded(admin.Guard{Token: token}))
	defer server.Close()
	for origin, want := range map[string]int{"": 200, "http://isr.internal:9180": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/-/pages", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "isr.internal:9180"
		req.Header.Set("Authorization", "Bearer "+secret)
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if a := f.send(req); a.status != want {
			t.Errorf("origin %q: %d %s", origin, a.status, a.text)
		}
	}
}

// Without a token, the health response is only the status.
func TestHealth(t *testing.T) {
	f := newFixture(t)
	for header, want := range map[string]string{"": `{"status":"ok"}`, "Bearer " + secret: `"version":"v1.2.3"`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.shut.URL+"/-/health", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		a := f.send(req)
		if a.status != 200 || !strings.Contains(a.text, want) || header == "" && strings.TrimSpace(a.text) != want {
			t.Errorf("%q: %d %s; want %s", header, a.status, a.text, want)
		}
	}
}

// An auditLine is the log line of a change.
type auditLine struct {
	Level string
	Audit *struct{ Remote, Token, Action, Target, Result string }
}

func (f *fixture) auditLines() (lines []auditLine) {
	f.t.Helper()
	for text := range strings.Lines(f.log.String()) {
		var line auditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			f.t.Fatal(err)
		}
		if line.Audit != nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// The pages of a run are one entry, and one line at level info, however many they are: the changes of operators stay.
func TestAuditOfRun(t *testing.T) {
	f := newFixture(t)
	f.ask("POST", "/-/pin", `{"key":"example.com/a"}`)
	for i := range 1100 {
		key := fmt.Sprint("example.com/", i%2)
		if i == 7 {
			key = "/ "
		}
		f.ask("POST", "/-/regenerate", fmt.Sprintf(`{"key":%q,"unless_fresh":true,"run":"warm of list.txt"}`, key))
	}
	f.ask("POST", "/-/regenerate", `{"key":"example.com/0","unless_fresh":true,"run":"warm of other.txt"}`)
	all := get[admin.Audit](f, "/-/audit")
	if len(all.Entries) != 3 {
		t.Fatalf("%d entries: %+v", len(all.Entries), all.Entries)
	}
	if run := all.Entries[1]; run.Target != "warm of list.txt" || run.Pages != 1100 || run.Result != "invalid_request" || run.Action != "regeneratePage" || run.TookMS <= 0 {
		t.Errorf("the run: %+v", run)
	}
	if other := all.Entries[0]; other.Target != "warm of other.txt" || other.Pages != 1 || other.Result != "ok" {
		t.Errorf("the other run: %+v", other)
	}
	if shown := get[admin.Activity](f, "/-/page/activity?key=example.com/a"); len(shown.Changes) != 1 || shown.Changes[0].Action != "pinPage" {
		t.Errorf("changes of the page: %+v", shown.Changes)
	}
	lines := 0
	for _, line := range f.auditLines() {
		if line.Level == "INFO" {
			lines++
		}
	}
	if lines != 3 {
		t.Errorf("%d lines at level info", lines)
	}
	if a := f.ask("POST", "/-/regenerate", fmt.Sprintf(`{"key":"example.com/0","run":%q}`, strings.Repeat("x", 301))); a.status != 400 || !strings.Contains(a.text, "run has 301 bytes, at most 300 are allowed") {
		t.Errorf("a long name: %d %s", a.status, a.text)
	}
}

func TestAudit(t *testing.T) {
	f := newFixture(t)
	f.ask("GET", "/-/page?key=example.com/", "")
	f.ask("GET", "/-/pages", "")
	if lines := f.auditLines(); len(lines) > 0 {
		t.Errorf("looking leaves %v", lines)
	}
	if _, err := f.client().Regenerate(t.Context(), admin.Regenerate{Target: admin.Target{URL: "https://Example.com/a"}}); err != nil {
		t.Fatal(err)
	}
	f.ask("POST", "/-/regenerate", `{"key":"nowhere"}`)
	f.ask("POST", "/-/regenerate", `{"key":"/\nlevel=forged"}`)
	f.ask("POST", "/-/lease/release", `{"key":"example.com/a"}`)
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ token, action, target, result string }{
		{token.String(), "regeneratePage", "example.com/a", "ok"},
		{"", "regeneratePage", "nowhere/", "ok"},
		{"", "regeneratePage", "/\nlevel=forged", "invalid_request"},
		{"", "releaseLease", "example.com/a", "ok"},
	}
	lines := f.auditLines()
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(lines), len(want), f.log)
	}
	for i, line := range lines {
		a, w := line.Audit, want[i]
		if line.Level != "INFO" || a.Token != w.token || a.Action != w.action || a.Target != w.target || a.Result != w.result || a.Remote == "" {
			t.Errorf("line %d: %+v; want %+v", i, a, w)
		}
	}
	if strings.Contains(f.log.String(), secret) {
		t.Errorf("the log has the token: %s", f.log)
	}
}
