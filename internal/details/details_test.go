package details_test

import (
	"testing"

	"github.com/facetheory/isr/internal/details"
)

// An advice names a setting in the way in which it is set.
func TestNaming(t *testing.T) {
	for _, c := range []struct{ word, how, want string }{
		{"no-freshness", "", "send Cache-Control: s-maxage=60, or set revalidate: 60s for the route"},
		{"no-freshness", "--revalidate", "send Cache-Control: s-maxage=60, or set --revalidate 60s for the route"},
		{"no-freshness", "ISR_REVALIDATE", "send Cache-Control: s-maxage=60, or set ISR_REVALIDATE=60s for the route"},
		{"no-freshness", "isr.yaml:12", "send Cache-Control: s-maxage=60, or set revalidate: 60s (isr.yaml:12) for the route"},
		{"query", "--query", "put it in the key (--query NAME), or in --query if the page does not depend on it"},
		{"cookie", "ISR_IGNORE_COOKIE", "list it in ISR_IGNORE_COOKIE if the page does not depend on it"},
	} {
		d, ok := details.Named(c.word, func(string) string { return c.how })
		if !ok || d.Advice != c.want {
			t.Errorf("%s by %q: %q, want %q", c.word, c.how, d.Advice, c.want)
		}
	}
	if d, ok := details.Of("query"); !ok || d.Advice != "put it in the key (query: [NAME]), or in ignore_query if the page does not depend on it" {
		t.Errorf("%q", d.Advice)
	}
	requests, shares, most := details.Bypasses(map[string]int64{"stale": 900, "cookie": 30, "private": 70})
	if d, _ := details.Of(most); requests != 100 || shares != "private 70%, cookie 30%" || most != "private" || d.Advice == "" || d.Do() != d.Advice {
		t.Errorf("%d, %q, %q: %q", requests, shares, most, d.Do())
	}
}
