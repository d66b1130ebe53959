package cachekey

import (
	"bufio"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzProject: the request that a renderer gets for the key of a request has the same key, so
// that a page is stored where it is looked for, and nothing of the visitor beside the key.
func FuzzProject(f *testing.F) {
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: Example.com:80\r\n\r\n",
		"GET /a%2fb/../%7ec?b=2&a=1&utm_source=x HTTP/1.1\r\nHost: h\r\nAccept-Language: de, en;q=0.5\r\nX-Kind: a&b=c, d\r\n\r\n",
		"GET http://other/x;y?page=%00 HTTP/1.1\r\nHost: [::1]:8080\r\nCookie: ab=b; session=1\r\n\r\n",
		"HEAD //x HTTP/1.0\r\nHost: h.\r\nCookie: _ga=1\r\nX-Kind: \xff\r\n\r\n",
		"GET /?page=a+b&page=%2B HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\nConnection: X-Kind\r\n\r\n",
		"GET /# HTTP/1.1\r\nHost: h\r\nX-Tenant: t/../u\r\n\r\n",
	} {
		f.Add(request, false)
		f.Add(request, true)
	}
	rules := Rules{
		Query: []string{"page", "a", "b"}, Vary: []string{"X-Kind"}, IgnoreCookies: []string{"_ga"},
		Classes: []Class{{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "ab", Values: []string{"a", "b"}}},
	}
	plain := New(rules)
	rules.TenantHeader = "X-Tenant"
	tenants := New(rules)
	f.Fuzz(func(t *testing.T, request string, ofTenants bool) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return
		}
		m := plain
		if ofTenants {
			m = tenants
		}
		k, bypass, err := m.Key(r)
		if err != nil || bypass != "" {
			return
		}
		rendered, err := m.Request(t.Context(), k)
		if err != nil {
			t.Fatalf("%q has the key %s, which has no request: %v", request, k, err)
		}
		for name := range rendered.Header {
			if !slices.Contains([]string{"Accept", "Accept-Encoding", "User-Agent", "Accept-Language", "Cookie", "X-Kind", "X-Tenant"}, name) {
				t.Fatalf("%q is rendered with the field %s", request, name)
			}
		}
		again, bypass, err := m.Key(rendered)
		if err != nil || bypass != "" || again != k {
			t.Fatalf("%q has the key %s, and its request has %s, %q, %v", request, k, again, bypass, err)
		}
	})
}

// FuzzCookieClass: cookies are read as net/http does, for values without quotes.
func FuzzCookieClass(f *testing.F) {
	f.Add("ab=b; x=y", "ab")
	f.Add("x=ab=b;ab = b ;ab=a", "ab")
	f.Add("ab=;=;;ab", "ab")
	f.Add("ab =b", "ab")
	f.Fuzz(func(t *testing.T, field, name string) {
		class := newKeyClasses([]Class{{Cookie: name, Values: []string{"a", "b"}}})[0]
		h := http.Header{"Cookie": {field}}
		i := class.class(h)
		if i < 0 || i > 1 {
			t.Fatalf("%q: the class %d", field, i)
		}
		value := cookieValue(h["Cookie"], name)
		if strings.ContainsAny(value, ";") || i == 1 != (value == "b") {
			t.Fatalf("%q: %s is %q, and the class %d", field, name, value, i)
		}
		r := http.Request{Header: h}
		if c, err := r.Cookie(name); err == nil && !c.Quoted && len(r.CookiesNamed(name)) == 1 && strings.Count(field, name) == 1 && c.Value != value {
			t.Fatalf("%q: %s is %q, and to net/http %q", field, name, value, c.Value)
		}
	})
}

func FuzzReceipt(f *testing.F) {
	for _, s := range []string{"17", "-1", "+1", "007", "9223372036854775808", "1_0", "", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seq, err := ParseReceipt([]string{s})
		if err == nil && (seq < 0 || strconv.FormatInt(seq, 10) != strings.TrimLeft(s, "0") && seq != 0 || strings.Trim(s, "0123456789") != "") {
			t.Fatalf("%q is %d", s, seq)
		}
	})
}
