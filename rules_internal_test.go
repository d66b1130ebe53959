package isr

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

func request(target, header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

func TestRouteValidate(t *testing.T) {
	good := Route{Vary: []string{"RSC"}, Query: []string{"page"}, IgnoreCookies: []string{"*"}, TenantHeader: "X-Site"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good route: %v", err)
	}
	for _, bad := range []Route{
		{Revalidate: -1},
		{Vary: []string{"cookie"}},
		{Vary: []string{"Authorization"}},
		{Vary: []string{"no such"}},
		{Query: []string{""}},
		{IgnoreCookies: []string{""}},
		{TenantHeader: "no:such"},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestVaryOnCookies(t *testing.T) {
	header := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {"Cookie"}}
	for _, c := range []struct {
		ignored, refused string
	}{
		{"theme", httpcache.RefusedVary},
		{"*", ""},
	} {
		if v := newRouteRules(Route{IgnoreCookies: []string{c.ignored}}).judge(store.Key{}, http.StatusOK, header, 1000, nil, time.Time{}); v.Refused != c.refused {
			t.Errorf("cookie %q ignored: refused %q, expected %q", c.ignored, v.Refused, c.refused)
		}
	}
}

// A route may reduce a header to its absence, and take back names of package wellknown.
func TestRouteValidateKeys(t *testing.T) {
	for _, good := range []Route{
		{KeyClasses: []KeyClass{
			{Header: "HX-Request", Values: []string{"", "true"}},
			{Header: "Turbo-Frame", Values: []string{""}},
			{Header: "X-Inertia", Values: []string{"", "*"}},
			{Header: "X-Part", Values: []string{"", "nav", "*"}},
			{Header: "X-Kind", Values: []string{"a", "*"}},
		}},
		{KeyClasses: []KeyClass{{Cookie: "cookieconsent_status", Values: []string{"deny", "allow"}}}},
		{Query: []string{"utm_campaign"}},
		{IgnoreCookies: []string{"!OptanonConsent"}},
		{IgnoreCookies: []string{"!Optanon*"}},
		{IgnoreCookies: []string{"!session", "*"}},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []Route{
		{KeyClasses: []KeyClass{{Cookie: "a", Values: []string{"", "b"}}}},
		{KeyClasses: []KeyClass{{Header: "X-A", Values: []string{"b", ""}}}},
		{KeyClasses: []KeyClass{{Header: "Accept-Language", Values: []string{"", "en"}}}},
		{IgnoreCookies: []string{"!"}},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// An explanation has the key or the bypass of the request, and each bypass has a part.
func TestExplainedKeys(t *testing.T) {
	rt := Route{Query: []string{"utm_campaign"}, IgnoreCookies: []string{"!OptanonConsent"}, KeyClasses: []KeyClass{{Header: "X-Part", Values: []string{"", "nav", "*"}}}}
	for _, tt := range []struct{ target, header, key, bypass string }{
		{"http://h/?utm_campaign=5&gclid=1", "", "h/?utm_campaign=5", ""},
		{"http://h/?a=5", "", "", "query"},
		{"http://h/", "Cookie: OptanonAlertBoxClosed=1", "h/", ""},
		{"http://h/", "Cookie: OptanonConsent=1", "", "cookie"},
		{"http://h/", "X-Part: nav", "h/#x-part=nav", ""},
		{"http://h/", "X-Part: foot", "", "header"},
	} {
		e, err := rt.Explain(request(tt.target, tt.header))
		bypasses := slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Use == PartBypass })
		if err != nil || e.Key.Text != tt.key || e.Bypass != tt.bypass || bypasses != (tt.bypass != "") || (e.Render != nil) != (tt.key != "") {
			t.Errorf("%s %s: explained as %+v, %v", tt.target, tt.header, e, err)
		}
	}
}

func TestVaryOnClasses(t *testing.T) {
	for vary, refused := range map[string]string{
		"Accept-Language, Cookie, X-Device": "",
		"User-Agent":                        httpcache.RefusedVary,
		"Traceparent":                       httpcache.RefusedVary,
	} {
		rt := Route{Vary: []string{"RSC"}, KeyClasses: []KeyClass{
			{Header: "accept-language", Values: []string{"en", "de"}},
			{Cookie: "ab", Values: []string{"a", "b"}},
			{Header: "X-Device", Values: []string{"desktop", "mobile"}},
		}}
		rt.Forward = []string{"Traceparent"}
		h := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {vary}}
		if v := newRouteRules(rt).judge(store.Key{}, http.StatusOK, h, 1000, nil, time.Time{}); v.Refused != refused {
			t.Errorf("Vary: %s is refused as %q, want %q", vary, v.Refused, refused)
		}
	}
}
