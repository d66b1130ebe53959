package draft

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

const secret, other = "a-secret-of-16-bytes", "another-secret-of-it"

var now = time.Unix(1_800_000_000, 0)

func sign(t testing.TB, scope string) string {
	t.Helper()
	token, err := Sign(secret, Grant{Host: "example.com", Scope: scope, Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerify(t *testing.T) {
	whole, blog, folder := sign(t, "/"), sign(t, "/blog"), sign(t, "/blog/")
	parts := strings.Split(blog, ".")
	for _, tt := range []struct {
		name, token, host, path string
		secrets                 []string
		after                   time.Duration
		valid                   bool
	}{
		{"valid", whole, "example.com", "/", []string{secret}, 0, true},
		{"any path", whole, "example.com", "/a/../b", []string{secret}, 0, true},
		{"the second secret", whole, "example.com", "/", []string{other, secret}, 0, true},
		{"the last second", whole, "example.com", "/", []string{secret}, time.Hour - time.Second, true},
		{"expired", whole, "example.com", "/", []string{secret}, time.Hour, false},
		{"another secret", whole, "example.com", "/", []string{other}, 0, false},
		{"no secret", whole, "example.com", "/", nil, 0, false},
		{"another host", whole, "www.example.com", "/", []string{secret}, 0, false},
		{"another port", whole, "example.com:8080", "/", []string{secret}, 0, false},
		{"the scope", blog, "example.com", "/blog", []string{secret}, 0, true},
		{"below the scope", blog, "example.com", "/blog/a/b", []string{secret}, 0, true},
		{"encoded", blog, "example.com", "/%62log", []string{secret}, 0, true},
		{"beside the scope", blog, "example.com", "/blogs", []string{secret}, 0, false},
		{"above the scope", blog, "example.com", "/", []string{secret}, 0, false},
		{"another case", blog, "example.com", "/Blog", []string{secret}, 0, false},
		{"out of the scope by dots", blog, "example.com", "/blog/../admin", []string{secret}, 0, false},
		{"by encoded dots", blog, "example.com", "/blog/%2e%2e/admin", []string{secret}, 0, false},
		{"by encoded slashes", blog, "example.com", "/blog%2F..%2Fadmin", []string{secret}, 0, false},
		{"by dots at the end", blog, "example.com", "/blog/..", []string{secret}, 0, false},
		{"by parameters", blog, "example.com", "/blog/..;/admin", []string{secret}, 0, false},
		{"a bad path", whole, "example.com", "/%zz", []string{secret}, 0, false},
		{"a folder", folder, "example.com", "/blog/a", []string{secret}, 0, true},
		{"the folder without its slash", folder, "example.com", "/blog", []string{secret}, 0, false},
		{"empty", "", "example.com", "/", []string{secret}, 0, false},
		{"another version", "2" + blog[1:], "example.com", "/blog", []string{secret}, 0, false},
		{"a later end", strings.Join([]string{parts[0], "1900000000", parts[2], parts[3]}, "."), "example.com", "/blog", []string{secret}, 0, false},
		{"the end written otherwise", strings.Join([]string{parts[0], "+" + parts[1], parts[2], parts[3]}, "."), "example.com", "/blog", []string{secret}, 0, false},
		{"a wider scope", strings.Join([]string{parts[0], parts[1], "Lw", parts[3]}, "."), "example.com", "/blog", []string{secret}, 0, false},
		{"no signature", strings.Join(parts[:3], ".") + ".", "example.com", "/blog", []string{secret}, 0, false},
		{"a part of the signature", blog[:len(blog)-2], "example.com", "/blog", []string{secret}, 0, false},
		{"more parts", blog + ".", "example.com", "/blog", []string{secret}, 0, false},
		{"too long", blog + strings.Repeat("A", maxToken), "example.com", "/blog", []string{secret}, 0, false},
	} {
		g, err := Verify(tt.secrets, tt.token, tt.host, tt.path, now.Add(tt.after))
		if (err == nil) != tt.valid {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.valid && (g.Host != tt.host || !g.Expires.Equal(now.Add(time.Hour))) {
			t.Errorf("%s: %+v", tt.name, g)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	for name, c := range map[string]struct{ secret, scope string }{
		"a short secret": {"short", "/"}, "no path": {secret, "blog"}, "dots": {secret, "/a/../b"}, "a query": {secret, "/a?b"},
		"a long path": {secret, "/" + strings.Repeat("a", maxScope)}, "a newline": {secret, "/a\nb"},
	} {
		if token, err := Sign(c.secret, Grant{Host: "h", Scope: c.scope, Expires: now}); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
	if err := CheckSecrets([]string{secret, secret, secret}); err == nil {
		t.Error("three secrets")
	}
}

// A token is valid in one spelling only, and no text without the secret is.
func FuzzVerify(f *testing.F) {
	valid := sign(f, "/blog")
	f.Add(valid, "/blog")
	f.Add("1.1.Lw.", "/")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(valid)), "/%2e")
	f.Fuzz(func(t *testing.T, token, path string) {
		ScopeOf(token)
		if _, err := Verify([]string{secret}, token, "example.com", path, now); err == nil && token != valid {
			t.Errorf("%q is accepted for %q", token, path)
		}
	})
}
