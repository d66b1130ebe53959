package cachekey

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/store"
)

func classRules() Rules {
	return Rules{Vary: []string{"RSC"}, Classes: []Class{
		{Header: "accept-language", Values: []string{"en", "de"}},
		{Cookie: "ab", Values: []string{"a", "b"}},
		{Header: "X-Device", Values: []string{"desktop", "mobile"}},
	}}
}

func TestProjectClasses(t *testing.T) {
	for _, tt := range []struct{ name, header, variant, bypass string }{
		{"no header", "", "accept-language=en&cookie%3Aab=a&x-device=desktop", ""},
		{"each has its class", "Accept-Language: de-CH\nCookie: _ga=1; ab=b\nX-Device: mobile", "accept-language=de&cookie%3Aab=b&x-device=mobile", ""},
		{"other values have the default", "Accept-Language: fr\nCookie: ab=<script>\nX-Device: tv", "accept-language=en&cookie%3Aab=a&x-device=desktop", ""},
		{"the first cookie counts", "Cookie: ab=b; ab=a\nCookie: ab=a", "accept-language=en&cookie%3Aab=b&x-device=desktop", ""},
		{"a repeated header has the default", "X-Device: mobile\nX-Device: mobile", "accept-language=en&cookie%3Aab=a&x-device=desktop", ""},
		{"after declared headers", "Rsc: 1", "rsc=1&accept-language=en&cookie%3Aab=a&x-device=desktop", ""},
		{"other cookies still bypass", "Cookie: ab=b; sessionid=1", "", BypassCookie},
	} {
		k, bypass, err := New(classRules()).Key(request("http://h/", tt.header))
		want := ""
		if tt.bypass == "" {
			want = "h/#" + tt.variant
		}
		if err != nil || k.Text != want || bypass != tt.bypass {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.name, k.Text, bypass, err, want, tt.bypass)
		}
	}
	if _, _, err := New(classRules()).Key(request("http://h/", "X-Device: mobile\nConnection: x-device")); err == nil {
		t.Error("a header of a class that a proxy would remove is accepted")
	}
}

// The absence of a header is a class that no render and no key shows, and other values bypass the
// cache if the route says so. Whatever visitors send, a page has no more variants than values.
func TestClassesOfAbsentHeaders(t *testing.T) {
	rules := Rules{Classes: []Class{
		{Header: "HX-Request", Values: []string{"", "true"}},
		{Header: "Turbo-Frame", Values: []string{""}},
		{Header: "X-Inertia", Values: []string{"", "*"}},
		{Header: "X-Part", Values: []string{"", "nav", "*"}},
		{Header: "X-Kind", Values: []string{"a", "*"}},
	}}
	m := New(rules)
	for _, tt := range []struct{ name, header, key, bypass, rendered string }{
		{"none", "", "h/#x-kind=a", "", ""},
		{"the value", "Hx-Request: true", "h/#hx-request=true&x-kind=a", "", "Hx-Request"},
		{"another value", "Hx-Request: True", "h/#x-kind=a", "", ""},
		{"an empty value", "Hx-Request: ", "h/#x-kind=a", "", ""},
		{"free values", "Turbo-Frame: a-frame", "h/#x-kind=a", "", ""},
		{"an excluded one", "X-Inertia: true", "", BypassHeader, ""},
		{"an excluded one that is its name", "X-Inertia: *", "", BypassHeader, ""},
		{"an empty one", "X-Inertia:  ", "h/#x-kind=a", "", ""},
		{"a named one", "X-Part: nav", "h/#x-kind=a&x-part=nav", "", "X-Part"},
		{"one that is not named", "X-Part: foot", "", BypassHeader, ""},
		{"a repeated one", "X-Part: nav\nX-Part: nav", "", BypassHeader, ""},
		{"one without absence", "X-Kind: b", "", BypassHeader, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request("http://h/", tt.header)
			k, bypass, err := m.Key(r)
			if err != nil || k.Text != tt.key || bypass != tt.bypass {
				t.Fatalf("key %q, bypass %q, %v; want %q, %q", k.Text, bypass, err, tt.key, tt.bypass)
			}
			if parts := m.Parts(r); hasUse(parts, Bypass) != (bypass != "") {
				t.Errorf("explained as %+v", parts)
			}
			if bypass != "" {
				return
			}
			render, err := m.Request(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Hx-Request", "Turbo-Frame", "X-Inertia", "X-Part"} {
				if _, carried := render.Header[name]; carried != (name == tt.rendered) {
					t.Errorf("the render carries %s: %q", name, render.Header[name])
				}
			}
			if again, _, err := m.Key(render); err != nil || again != k {
				t.Errorf("the render has the key %q, %v", again, err)
			}
		})
	}
	for _, name := range []string{"Hx-Request", "Turbo-Frame", "X-Inertia"} {
		if !m.Covers(name) {
			t.Errorf("a page with Vary: %s is not stored", name)
		}
	}
}

// Whatever a visitor sends, the renderer sees one of the declared values, and its request
// has the same key.
func TestRendererSeesOnlyClasses(t *testing.T) {
	m := New(classRules())
	text := rapid.StringMatching(`[a-z,;=*\- 0-9.q"]{0,12}`)
	value := rapid.OneOf(text, rapid.SampledFrom([]string{"de", "en", "a", "b", "mobile", "desktop", "de-AT;q=0.3"}))
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header{
			"Accept-Language": {value.Draw(t, "language")}, "X-Device": {value.Draw(t, "device")},
			"Cookie": {"_ga=1; ab=" + strings.ReplaceAll(value.Draw(t, "cookie"), ";", "")},
		}
		k, bypass, err := m.Key(&http.Request{Method: http.MethodGet, Host: "h", URL: &url.URL{Path: "/"}, Header: h})
		if err != nil || bypass != "" {
			t.Fatalf("%v, %q", err, bypass)
		}
		seen, err := m.Request(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(seen.Header["Accept-Language"], seen.Header["X-Device"], seen.Header["Cookie"])
		possible := false
		for i := range 8 {
			possible = possible || got == fmt.Sprintf("[%s] [%s] [ab=%s]", []string{"en", "de"}[i&1], []string{"desktop", "mobile"}[i>>1&1], []string{"a", "b"}[i>>2])
		}
		if again, _, _ := m.Key(seen); !possible || again != k {
			t.Errorf("the renderer sees %s, with the key %q; the visitor's is %q", got, again, k)
		}
	})
}

func TestClassesOfKeys(t *testing.T) {
	m := New(classRules())
	for _, variant := range []string{"accept-language=fr", "cookie%3Aab=c", "cookie%3Aab=a&cookie%3Aab=b", "cookie%3Aid=1"} {
		if r, err := m.Request(t.Context(), store.Key{Text: "h/#" + variant}); err == nil {
			t.Errorf("%q became the request %v", variant, r.Header)
		}
	}
	// An operator who names the page without its classes learns how to.
	if err := m.Reachable(t.Context(), store.Key{Text: "h/"}); err == nil || !strings.Contains(err.Error(), "h/#accept-language=en&cookie%3Aab=a&x-device=desktop") {
		t.Errorf("a key without classes: %v", err)
	}
}
