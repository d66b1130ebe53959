package isr

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

func classRoute() Route {
	return Route{Vary: []string{"RSC"}, KeyClasses: []KeyClass{
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
		{"other cookies still bypass", "Cookie: ab=b; sessionid=1", "", bypassCookie},
	} {
		k, bypass, err := newProjector(classRoute()).project(request("http://h/", tt.header))
		want := ""
		if tt.bypass == "" {
			want = "h/#" + tt.variant
		}
		if err != nil || k.Text != want || bypass != tt.bypass {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.name, k.Text, bypass, err, want, tt.bypass)
		}
	}
	if _, _, err := newProjector(classRoute()).project(request("http://h/", "X-Device: mobile\nConnection: x-device")); err == nil {
		t.Error("a header of a class that a proxy would remove is accepted")
	}
}

// The absence of a header is a class that no render and no key shows, and other values bypass the
// cache if the route says so. Whatever visitors send, a page has no more variants than values.
func TestClassesOfAbsentHeaders(t *testing.T) {
	rt := Route{KeyClasses: []KeyClass{
		{Header: "HX-Request", Values: []string{"", "true"}},
		{Header: "Turbo-Frame", Values: []string{""}},
		{Header: "X-Inertia", Values: []string{"", "*"}},
		{Header: "X-Part", Values: []string{"", "nav", "*"}},
		{Header: "X-Kind", Values: []string{"a", "*"}},
	}}
	if err := rt.Validate(); err != nil {
		t.Fatal(err)
	}
	p := newProjector(rt)
	for _, tt := range []struct{ name, header, key, bypass, rendered string }{
		{"none", "", "h/#x-kind=a", "", ""},
		{"the value", "Hx-Request: true", "h/#hx-request=true&x-kind=a", "", "Hx-Request"},
		{"another value", "Hx-Request: True", "h/#x-kind=a", "", ""},
		{"an empty value", "Hx-Request: ", "h/#x-kind=a", "", ""},
		{"free values", "Turbo-Frame: a-frame", "h/#x-kind=a", "", ""},
		{"an excluded one", "X-Inertia: true", "", bypassHeader, ""},
		{"an excluded one that is its name", "X-Inertia: *", "", bypassHeader, ""},
		{"an empty one", "X-Inertia:  ", "h/#x-kind=a", "", ""},
		{"a named one", "X-Part: nav", "h/#x-kind=a&x-part=nav", "", "X-Part"},
		{"one that is not named", "X-Part: foot", "", bypassHeader, ""},
		{"a repeated one", "X-Part: nav\nX-Part: nav", "", bypassHeader, ""},
		{"one without absence", "X-Kind: b", "", bypassHeader, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request("http://h/", tt.header)
			k, bypass, err := p.project(r)
			if err != nil || k.Text != tt.key || bypass != tt.bypass {
				t.Fatalf("key %q, bypass %q, %v; want %q, %q", k.Text, bypass, err, tt.key, tt.bypass)
			}
			e, err := rt.Explain(r)
			if err != nil || e.Bypass != bypass || hasUse(e.Parts, PartBypass) != (bypass != "") {
				t.Errorf("explained as %+v, %v", e, err)
			}
			if bypass != "" {
				return
			}
			render, err := p.request(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Hx-Request", "Turbo-Frame", "X-Inertia", "X-Part"} {
				if _, carried := render.Header[name]; carried != (name == tt.rendered) {
					t.Errorf("the render carries %s: %q", name, render.Header[name])
				}
			}
			if again, _, err := p.project(render); err != nil || again != k {
				t.Errorf("the render has the key %q, %v", again, err)
			}
		})
	}
	for _, name := range []string{"Hx-Request", "Turbo-Frame", "X-Inertia"} {
		if !p.inKey(name) {
			t.Errorf("a page with Vary: %s is not stored", name)
		}
	}
	for _, wrong := range []KeyClass{
		{Cookie: "a", Values: []string{"", "b"}}, {Header: "X-A", Values: []string{"b", ""}}, {Header: "Accept-Language", Values: []string{"", "en"}},
	} {
		if err := (Route{KeyClasses: []KeyClass{wrong}}).Validate(); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// Whatever a visitor sends, the renderer sees one of the declared values, and its request
// has the same key.
func TestRendererSeesOnlyClasses(t *testing.T) {
	p := newProjector(classRoute())
	text := rapid.StringMatching(`[a-z,;=*\- 0-9.q"]{0,12}`)
	value := rapid.OneOf(text, rapid.SampledFrom([]string{"de", "en", "a", "b", "mobile", "desktop", "de-AT;q=0.3"}))
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header{
			"Accept-Language": {value.Draw(t, "language")}, "X-Device": {value.Draw(t, "device")},
			"Cookie": {"_ga=1; ab=" + strings.ReplaceAll(value.Draw(t, "cookie"), ";", "")},
		}
		k, bypass, err := p.project(&http.Request{Method: http.MethodGet, Host: "h", URL: &url.URL{Path: "/"}, Header: h})
		if err != nil || bypass != "" {
			t.Fatalf("%v, %q", err, bypass)
		}
		seen, err := p.request(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(seen.Header["Accept-Language"], seen.Header["X-Device"], seen.Header["Cookie"])
		possible := false
		for i := range 8 {
			possible = possible || got == fmt.Sprintf("[%s] [%s] [ab=%s]", []string{"en", "de"}[i&1], []string{"desktop", "mobile"}[i>>1&1], []string{"a", "b"}[i>>2])
		}
		if again, _, _ := p.project(seen); !possible || again != k {
			t.Errorf("the renderer sees %s, with the key %q; the visitor's is %q", got, again, k)
		}
	})
}

func TestClassesOfKeys(t *testing.T) {
	p := newProjector(classRoute())
	for _, variant := range []string{"accept-language=fr", "cookie%3Aab=c", "cookie%3Aab=a&cookie%3Aab=b", "cookie%3Aid=1"} {
		if r, err := p.request(t.Context(), store.Key{Text: "h/#" + variant}); err == nil {
			t.Errorf("%q became the request %v", variant, r.Header)
		}
	}
	// An operator who names the page without its classes learns how to.
	if err := p.reachable(t.Context(), store.Key{Text: "h/"}); err == nil || !strings.Contains(err.Error(), "h/#accept-language=en&cookie%3Aab=a&x-device=desktop") {
		t.Errorf("a key without classes: %v", err)
	}
}

func TestVaryOnClasses(t *testing.T) {
	for vary, refused := range map[string]string{
		"Accept-Language, Cookie, X-Device": "",
		"User-Agent":                        httpcache.RefusedVary,
		"Traceparent":                       httpcache.RefusedVary,
	} {
		rt := classRoute()
		rt.Forward = []string{"Traceparent"}
		h := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {vary}}
		if v := newProjector(rt).judge(store.Key{}, http.StatusOK, h, 1000, nil, time.Time{}); v.Refused != refused {
			t.Errorf("Vary: %s is refused as %q, want %q", vary, v.Refused, refused)
		}
	}
}
