package suspicion

import (
	"net/http"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

func TestRejects(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}, "X-Robots-Tag": {"all"}}
	current := &store.Entry{Status: 200, Length: 1000, Header: html}
	all := Rules{SmallerThan: 0.5, Without: []string{"</html>"}, With: []string{"Fatal error"}, Status: true, ContentType: true, LostHeaders: []string{"x-robots-tag"}}
	markup := func(n int) string { return strings.Repeat("x", n-7) + "</html>" }
	for _, tt := range []struct {
		name    string
		rules   Rules
		status  int
		header  http.Header
		body    string
		current *store.Entry
		want    string // the beginning of the reason
	}{
		{"as large", all, 200, html, markup(1000), current, ""},
		{"half the size", all, 200, html, markup(500), current, ""},
		{"less than half the size", all, 200, html, markup(499), current, "it has 499 bytes, the current generation 1000"},
		{"small, without a current one", all, 200, html, markup(10), nil, ""},
		{"small, after another service's", all, 200, html, markup(10), &store.Entry{Status: 200, Length: 1000, Foreign: true}, ""},
		{"small, after a withdrawal", all, 200, html, markup(10), &store.Entry{Status: 410, Length: 1000, Withdrawn: true}, ""},
		{"cut off", all, 200, html, strings.Repeat("x", 900), current, `it lacks the text "</html>"`},
		{"the first one cut off", all, 200, html, strings.Repeat("x", 900), nil, `it lacks the text "</html>"`},
		{"an error page", all, 200, html, "Fatal error: x" + markup(900), current, `it has the text "Fatal error"`},
		{"an error page that was not found", all, 404, html, "Fatal error: x" + markup(900), nil, `it has the text "Fatal error"`},
		{"a style sheet has no </html>", all, 200, http.Header{"Content-Type": {"text/css"}}, "Fatal error", nil, ""},
		{"a type that browsers would guess", all, 200, http.Header{}, "<!DOCTYPE html>Fatal error", nil, `it has the text`},
		{"a redirect has no </html>", all, 301, html, "moved", nil, ""},
		{"another status class", all, 404, html, markup(1000), current, "its status is 404; the status of the current generation is 200"},
		{"another status class is allowed", Rules{SmallerThan: 0.5}, 301, html, "", current, ""},
		{"another content type", all, 200, http.Header{"Content-Type": {"text/plain"}, "X-Robots-Tag": {"all"}}, markup(1000), current, `its content type is "text/plain"`},
		{"another charset", all, 200, http.Header{"Content-Type": {"Text/HTML"}, "X-Robots-Tag": {"all"}}, markup(1000), current, ""},
		{"a header is lost", all, 200, http.Header{"Content-Type": {"text/html"}}, markup(1000), current, "it lacks the header X-Robots-Tag"},
		{"no rules", Rules{}, 200, http.Header{}, "", current, ""},
	} {
		got := tt.rules.Why(&render.Response{Status: tt.status, Header: tt.header, Body: []byte(tt.body)}, tt.current, nil)
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A page is truncated if it has lost the end that the current generation has.
func TestRejectsTruncated(t *testing.T) {
	html, text := http.Header{"Content-Type": {"text/html"}}, http.Header{"Content-Type": {"text/plain"}}
	const whole, cut = "<html><b>x</b></HTML >\n<!-- made in 0.2 s -->", "<html><b>x</b"
	for _, tt := range []struct {
		name         string
		status       int
		header       http.Header
		body, before string
		current      *store.Entry
		rejected     bool
	}{
		{"cut off", 200, html, cut, whole, &store.Entry{Status: 200, Header: html}, true},
		{"whole", 200, html, whole, whole, &store.Entry{Status: 200, Header: html}, false},
		{"a part of a page", 200, html, "<b>y</b>", "<b>x</b>", &store.Entry{Status: 200, Header: html}, false},
		{"now a text", 200, text, "token", whole, &store.Entry{Status: 200, Header: html}, false},
		{"a text before", 200, html, cut, whole, &store.Entry{Status: 200, Header: text}, false},
		{"a redirect", 301, html, "moved", whole, &store.Entry{Status: 200, Header: html}, false},
		{"of another service", 200, html, cut, whole, &store.Entry{Status: 200, Header: html, Foreign: true}, false},
		{"the first one", 200, html, cut, whole, nil, false},
	} {
		res := &render.Response{Status: tt.status, Header: tt.header, Body: []byte(tt.body)}
		stored := func() ([]byte, error) { return []byte(tt.before), nil }
		if got := (Rules{Truncated: true}).Why(res, tt.current, stored); (got != "") != tt.rejected {
			t.Errorf("%s: %q, rejected: want %t", tt.name, got, tt.rejected)
		}
	}
}
