package cachekey

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/store"
)

func TestProject(t *testing.T) {
	route := Rules{Query: []string{"page", "q"}, Vary: []string{"RSC", "accept-encoding", "X-Device"}, IgnoreCookies: []string{"theme", "wp-*"}}
	tests := []struct {
		name   string
		target string
		header string // lines of "Name: value"
		change func(*http.Request)
		key    string
		bypass string
	}{
		{name: "plain", target: "http://example.com/news", key: "example.com/news"},
		{name: "host in capitals with the default port", target: "http://Example.COM:80/", key: "example.com/"},
		{name: "another port", target: "http://example.com:8080/", key: "example.com:8080/"},
		{name: "HEAD shares the page", target: "http://h/", change: func(r *http.Request) { r.Method = "HEAD" }, key: "h/"},
		{name: "percent-encoding has one form", target: "http://h/%7euser/caf%c3%a9/a%2fb", key: "h/~user/caf%C3%A9/a%2Fb"},
		{name: "declared parameters sorted by name", target: "http://h/?q=b&page=2&q=a", key: "h/?page=2&q=b&q=a"},
		{name: "parameter without a value", target: "http://h/?page", key: "h/?page"},
		{name: "plus and percent are one space", target: "http://h/?q=a+b", key: "h/?q=a%20b"},
		{name: "tracking parameters dropped", target: "http://h/?utm_source=x&page=2&gclid=1&fbclid=2", key: "h/?page=2"},
		{name: "an undeclared parameter", target: "http://h/?page=2&debug=1", bypass: BypassQuery},
		{name: "a badly encoded parameter", target: "http://h/?q=%zz", bypass: BypassQuery},
		{name: "a semicolon in the query", target: "http://h/?page=1;q=2", bypass: BypassQuery},
		{name: "declared header", target: "http://h/", header: "Rsc: 1", key: "h/#rsc=1"},
		{name: "declared headers sorted, odd values encoded", target: "http://h/?page=1", header: "X-Device: a&b=c\nRsc: 1", key: "h/?page=1#rsc=1&x-device=a%26b%3Dc"},
		{name: "other headers do not matter", target: "http://h/", header: "Accept-Language: de\nUser-Agent: x\nAccept-Encoding: gzip", key: "h/"},
		{name: "authorization", target: "http://h/", header: "Authorization: Basic eDp5", bypass: BypassAuthorization},
		{name: "upgrade", target: "http://h/", header: "Connection: upgrade\nUpgrade: websocket", bypass: BypassUpgrade},
		{name: "an upgrade that is not passed on", target: "http://h/", header: "Connection: upgrade, http2-settings\nUpgrade: h2c\nHttp2-Settings: x", key: "h/"},
		{name: "a list of upgrades", target: "http://h/", header: "Connection: upgrade\nUpgrade: h2c, websocket", key: "h/"},
		{name: "a session cookie", target: "http://h/", header: "Cookie: _ga=1; sessionid=2", bypass: BypassCookie},
		{name: "a cookie in a second line", target: "http://h/", header: "Cookie: _ga=1\nCookie: sessionid=2", bypass: BypassCookie},
		{name: "analytics cookies", target: "http://h/", header: "Cookie: _ga=1; _ga_ABC=2; __utma=3; _fbp=4", key: "h/"},
		{name: "ignored cookies", target: "http://h/", header: "Cookie: theme=dark; wp-settings-1=x", key: "h/"},
		{name: "a cookie that only begins like an ignored one", target: "http://h/", header: "Cookie: themes=1", bypass: BypassCookie},
		{name: "an undeclared tenant header", target: "http://h/", header: "X-Tenant-Id: acme", bypass: BypassTenant},
		{name: "POST", target: "http://h/", change: func(r *http.Request) { r.Method = "POST" }, bypass: BypassMethod},
		{name: "a body", target: "http://h/", change: func(r *http.Request) { r.ContentLength = -1 }, bypass: BypassBody},
		{name: "no host", target: "http://h/", change: func(r *http.Request) { r.Host = "" }, bypass: BypassHost},
		{name: "too long", target: "http://h/" + strings.Repeat("a", store.MaxKeyLength), bypass: BypassKeyLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.target, tt.header)
			if tt.change != nil {
				tt.change(r)
			}
			k, bypass, err := New(route).Key(r)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if k.Text != tt.key || bypass != tt.bypass {
				t.Errorf("key %q, bypass %q; want %q, %q", k.Text, bypass, tt.key, tt.bypass)
			}
		})
	}
}

// RFC 9111, section 4.1: equivalent values of a header share a page, and its renderer sees
// their normalised form.
func TestRFC9111Section4_1KeysOfNormalizedHeaders(t *testing.T) {
	m := New(Rules{Vary: []string{"Accept", "Accept-Language", "X-Device"}})
	for _, tt := range []struct {
		name, key string
		headers   []string // equivalent ones
		rendered  string   // what the renderer gets, "Name: value"
	}{
		{"languages", "h/#accept-language=de-AT%2C%20en%3Bq%3D0.5", []string{
			"Accept-Language: de-AT, en;q=0.5", "Accept-Language: de-at,en;q=0.500", "Accept-Language: en;q=0.5\nAccept-Language: DE-AT;q=1",
		}, "Accept-Language: de-AT, en;q=0.5"},
		{"any type", "h/", []string{"", "Accept: */*", "Accept: */*;q=1.0", "Accept: ", "Accept-Language: *"}, "Accept: */*"},
		{"types", "h/#accept=text%2Fhtml%2C%20%2A%2F%2A%3Bq%3D0.8", []string{"Accept: */*;q=0.8,text/html", "Accept: Text/HTML , */* ; q=0.80"}, "Accept: text/html, */*;q=0.8"},
		{"an unknown header", "h/#x-device=b%2C%20a", []string{"X-Device: b, a", "X-Device: b\nX-Device:  a\t"}, "X-Device: b, a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, header := range tt.headers {
				r := request("http://h/", header)
				k, bypass, err := m.Key(r)
				if err != nil || bypass != "" || k.Text != tt.key {
					t.Errorf("%q: key %q, bypass %q, %v; want %q", header, k.Text, bypass, err, tt.key)
					continue
				}
				render, err := m.Request(t.Context(), k)
				if err != nil {
					t.Fatal(err)
				}
				if again, _, err := m.Key(render); err != nil || again != k {
					t.Errorf("the renderer's request has the key %q, %v", again, err)
				}
				if name, value, _ := strings.Cut(tt.rendered, ": "); strings.Join(render.Header[name], "|") != value {
					t.Errorf("%q: the renderer gets %q, want %q", header, render.Header[name], value)
				}
			}
		})
	}
}

func request(target, header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

func TestProjectRefuses(t *testing.T) {
	tests := []struct {
		name   string
		header string
		host   string
		path   string
		method string
	}{
		{name: "CONNECT", header: "X-Site: a", method: http.MethodConnect},
		{name: "no tenant"},
		{name: "two tenants", header: "X-Site: a\nX-Site: b"},
		{name: "a tenant that would break out of its key", header: "X-Site: a#CACHE#b"},
		{name: "an empty tenant", header: "X-Site: "},
		{name: "a tenant too long", header: "X-Site: " + strings.Repeat("a", store.MaxTenantLength+1)},
		{name: "an invalid host", header: "X-Site: a", host: "exa mple.com/x"},
		{name: "an invalid path", header: "X-Site: a", path: "no-slash"},
		{name: "a tenant that a proxy would remove", header: "X-Site: a\nConnection: x-site"},
		{name: "a tenant that a proxy would remove, among others", header: "X-Site: a\nConnection: keep-alive, foo, X-SITE"},
		{name: "credentials that a proxy would remove", header: "X-Site: a\nAuthorization: Basic eDp5\nConnection: authorization"},
		{name: "cookies that a proxy would remove", header: "X-Site: a\nCookie: id=1\nConnection: close\nConnection: cookie"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request("http://h/", tt.header)
			if tt.host != "" {
				r.Host = tt.host
			}
			if tt.method != "" {
				r.Method = tt.method
			}
			if tt.path != "" {
				r.URL = &url.URL{Path: tt.path}
			}
			if k, bypass, err := New(Rules{TenantHeader: "x-site"}).Key(r); err == nil {
				t.Errorf("key %q, bypass %q; want it refused", k, bypass)
			}
		})
	}
}

// The renderer's request has the same key as the visitor's, and nothing outside the key.
func TestRendererRequestHasTheSameKey(t *testing.T) {
	m := New(Rules{Query: []string{"a", "b c", "ü"}, Vary: []string{"X-One", "X-Two"}, TenantHeader: "X-Site"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z#?&=%/ ;+ä"<>]{0,8}`)
		u := url.URL{Scheme: "http", Host: "example.com", Path: "/" + text.Draw(t, "path")}
		query := url.Values{}
		for _, name := range []string{"a", "b c", "ü", "utm_source"} {
			for range rapid.IntRange(0, 2).Draw(t, "times") {
				query.Add(name, text.Draw(t, name))
			}
		}
		u.RawQuery = query.Encode()
		r := &http.Request{Method: http.MethodGet, Host: u.Host, URL: &u, Header: http.Header{
			"X-Site": {"acme"}, "User-Agent": {"secret"}, "X-Forwarded-For": {"secret"},
		}}
		for _, name := range []string{"X-One", "X-Two"} {
			if v := text.Draw(t, name); v != "" {
				r.Header[name] = []string{v}
			}
		}
		k, bypass, err := m.Key(r)
		if err != nil || bypass != "" {
			t.Fatalf("%v, %q", err, bypass)
		}
		seen, err := m.Request(context.Background(), k)
		if err != nil {
			t.Fatal(err)
		}
		again, bypass, err := m.Key(seen)
		if err != nil || bypass != "" || again != k {
			t.Fatalf("the renderer's request has the key %q (%v, %q), the visitor's %q", again, err, bypass, k)
		}
		if seen.URL.Path != u.Path {
			t.Errorf("the renderer got the path %q, the visitor requested %q", seen.URL.Path, u.Path)
		}
		query.Del("utm_source")
		if diff := cmp.Diff(query, seen.URL.Query()); diff != "" {
			t.Errorf("the renderer sees another query (-visitor +renderer):\n%s", diff)
		}
		if seen.RemoteAddr != "" {
			t.Errorf("the render claims to come from %s", seen.RemoteAddr)
		}
		for name, values := range seen.Header {
			if values[0] == "secret" {
				t.Errorf("the renderer sees the visitor's %s", name)
			}
		}
		parsed, err := store.ParseKey(k.Tenant, "HTTP://"+k.Text)
		if err != nil || parsed != k {
			t.Errorf("ParseKey(%q) = %q, %v", k.Text, parsed, err)
		}
	})
}

func TestRequestRefusesAnotherRoutesKey(t *testing.T) {
	m := New(Rules{Vary: []string{"X-One"}})
	for _, k := range []store.Key{
		{Text: "h/#authorization=x"},
		{Text: "h/#x-two=1"},
		{Tenant: "acme", Text: "h/"},
		{Text: "h/#x-one=%zz"},
	} {
		if r, err := m.Request(context.Background(), k); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%s became the request %v, %v", k, r, err)
		}
	}
}
