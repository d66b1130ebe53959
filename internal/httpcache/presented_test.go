package httpcache_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/internal/httpcache"
)

func TestPresented(t *testing.T) {
	t.Parallel()
	const html, policy = "text/html; charset=utf-8", "default-src 'self'; script-src 'nonce-r4nd0m'"
	for _, test := range []struct {
		status, kind, policy string
		code                 int
		want                 http.Header
	}{
		{"", "", "", 200, http.Header{}},
		{"200", html, "", 200, http.Header{"Content-Type": {html}}},
		{"404", html, policy, 404, http.Header{"Content-Type": {html}, "Content-Security-Policy": {policy}}},
		{"410", "application/problem+json", "", 410, http.Header{"Content-Type": {"application/problem+json"}}},
		{"204", "", "", 204, http.Header{}},
		{"", "text/html ; charset=utf-8", "", 200, http.Header{"Content-Type": {"text/html ; charset=utf-8"}}},
		{"451", "", "", 451, http.Header{}},
	} {
		code, h, err := httpcache.Presented(test.status, test.kind, test.policy)
		if err != nil || code != test.code || !cmp.Equal(h, test.want) {
			t.Errorf("%q, %q, %q: %d %v, %v; want %d %v", test.status, test.kind, test.policy, code, h, err, test.code, test.want)
		}
	}
}

func TestNotPresented(t *testing.T) {
	t.Parallel()
	for reason, tests := range map[string][][3]string{
		"no status":                {{"ok"}, {"4040"}, {"20"}, {"2 0"}, {" 200"}, {"-200"}, {"20\n"}},
		"a redirect":               {{"300"}, {"301"}, {"302"}, {"304"}, {"308"}},
		"not the status of a page": {{"+20"}, {"100"}, {"101"}, {"206"}, {"401"}, {"407"}, {"408"}, {"412"}, {"416"}, {"429"}, {"500"}, {"503"}, {"600"}, {"999"}, {"000"}},
		"no media type": {
			{"200", "text"}, {"200", "text/"}, {"200", "/html"}, {"200", "text/html/x"}, {"200", "text html"}, {"200", "text/html\r\nX: y"}, {"200", "text/html; charset=\"ü\""}, {"200", " text/html"}, {"200", "text/html; a=" + strings.Repeat("x", 8<<10)},
		},
		"ASCII": {
			{"200", "", "default-src\n'self'"}, {"200", "", "default-src é"}, {"200", "", "=?UTF-8?Q?default-src_=C3=A9?="}, {"200", "", strings.Repeat("x", 8<<10+1)},
		},
	} {
		for _, test := range tests {
			code, h, err := httpcache.Presented(test[0], test[1], test[2])
			if err == nil || code != 0 || h != nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%q: %d %v, %v; want an error with %q", test, code, h, err, reason)
			}
		}
	}
}
