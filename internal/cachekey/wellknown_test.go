package cachekey

import (
	"encoding/json"
	"os"
	"testing"
)

type wellKnownEntry struct{ Name, Kind, Where string }

// wellKnown returns spec/requests.json, with a name for each prefix.
func wellKnown(t *testing.T) (cookies, parameters, leftOut []wellKnownEntry) {
	t.Helper()
	text, err := os.ReadFile("../../spec/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cookies, Parameters []wellKnownEntry
		LeftOut             []wellKnownEntry `json:"left_out"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]wellKnownEntry{file.Cookies, file.Parameters} {
		for i := range list {
			if list[i].Kind == "prefix" {
				list[i].Name += "x1"
			}
		}
	}
	return file.Cookies, file.Parameters, file.LeftOut
}

// Requests with the cookies of a load balancer, of bot management or of a consent banner, and links
// of a campaign, get the page that everyone gets.
func TestWellKnownCookiesAndParametersShareThePage(t *testing.T) {
	cookies, parameters, leftOut := wellKnown(t)
	m := New(Rules{Query: []string{"page"}})
	check := func(target, header, key, bypass string) {
		t.Helper()
		k, got, err := m.Key(request(target, header))
		if err != nil || k.Text != key || got != bypass {
			t.Errorf("%s %s: key %q, bypass %q, %v; want %q, %q", target, header, k.Text, got, err, key, bypass)
		}
	}
	for _, e := range cookies {
		check("http://h/a", "Cookie: "+e.Name+"=1", "h/a", "")
		check("http://h/a", "Cookie: "+e.Name+"=1; session=1", "", BypassCookie)
	}
	for _, e := range parameters {
		check("http://h/a?page=2&"+e.Name+"=1", "", "h/a?page=2", "")
	}
	for _, e := range leftOut {
		if e.Where == "cookie" {
			check("http://h/a", "Cookie: "+e.Name+"=1", "", BypassCookie)
		} else {
			check("http://h/a?"+e.Name+"=1", "", "", BypassQuery)
		}
	}
}

// A route takes a cookie or a parameter of the list back.
func TestWellKnownNamesTakenBack(t *testing.T) {
	for _, tt := range []struct {
		name                        string
		rules                       Rules
		target, cookie, key, bypass string
	}{
		{"a declared parameter", Rules{Query: []string{"utm_campaign"}}, "http://h/?utm_campaign=5&gclid=1", "", "h/?utm_campaign=5", ""},
		{"a cookie", Rules{IgnoreCookies: []string{"!OptanonConsent"}}, "http://h/", "OptanonConsent=1", "", BypassCookie},
		{"another cookie", Rules{IgnoreCookies: []string{"!OptanonConsent"}}, "http://h/", "OptanonAlertBoxClosed=1", "h/", ""},
		{"those that begin so", Rules{IgnoreCookies: []string{"!Optanon*"}}, "http://h/", "OptanonAlertBoxClosed=1", "", BypassCookie},
		{"all but one", Rules{IgnoreCookies: []string{"!session", "*"}}, "http://h/", "a=1; session=1", "", BypassCookie},
		{"all but another one", Rules{IgnoreCookies: []string{"*", "!session"}}, "http://h/", "a=1", "h/", ""},
		{"a class of a cookie", Rules{Classes: []Class{{Cookie: "cookieconsent_status", Values: []string{"deny", "allow"}}}}, "http://h/", "cookieconsent_status=allow", "h/#cookie%3Acookieconsent_status=allow", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(tt.rules)
			r := request(tt.target, "Cookie: "+tt.cookie)
			k, bypass, err := m.Key(r)
			if err != nil || k.Text != tt.key || bypass != tt.bypass {
				t.Errorf("key %q, bypass %q, %v; want %q, %q", k.Text, bypass, err, tt.key, tt.bypass)
			}
			if parts := m.Parts(r); hasUse(parts, Bypass) != (bypass != "") {
				t.Errorf("explained as %+v", parts)
			}
		})
	}
}

func hasUse(parts []Part, use Use) bool {
	for _, part := range parts {
		if part.Use == use {
			return true
		}
	}
	return false
}
