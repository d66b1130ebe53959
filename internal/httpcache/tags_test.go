package httpcache

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

func TestTags(t *testing.T) {
	for _, c := range []struct{ header, want string }{
		{"", ""},
		{"Surrogate-Key: b  a\tc\nSurrogate-Key: a", "a|b|c"},
		{"Cache-Tag: new products,, b , a\"b,c\"", `a"b|b|c"|new products`},
		{"X-Next-Cache-Tags: _N_T_/layout,_N_T_/page", "_N_T_/layout|_N_T_/page"},
		{`Cache-Groups: "a b";q=1, "say \"x\"", ""` + "\nCache-Groups: \"c,d\"", `|a b|c,d|say "x"`},
		{"Surrogate-Key: a\nCache-Tag: a\nCache-Groups: \"a\"\nX-Next-Cache-Tags: A", "A|a"},
	} {
		got, err := Tags(headerOf(c.header))
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%q: %q, %v; want %q", c.header, got, err, c.want)
		}
	}
	for _, groups := range []string{"a, b", `"a`, `"a",`, `"a" "b"`, `("a" "b")`, "1", `"ä"`, `"a", tok`} {
		got, err := Tags(headerOf("Surrogate-Key: a\nCache-Groups: " + groups))
		if err == nil || !strings.Contains(err.Error(), "Cache-Groups") || got != nil {
			t.Errorf("Cache-Groups: %s: %q, %v, want an error", groups, got, err)
		}
	}
}

// TestStatusIsAStructuredField checks Cache-Status against the parser of RFC 9651.
func TestStatusIsAStructuredField(t *testing.T) {
	for _, c := range []struct {
		status Status
		names  []string
	}{
		{Status{}, nil},
		{Status{Hit: true, HasTTL: true, TTL: -2500 * time.Millisecond, Detail: "cut-off"}, []string{"hit", "ttl", "detail"}},
		{
			Status{Forward: ForwardMiss, ForwardStatus: 200, Stored: true, Collapsed: true, HasTTL: true, Detail: RefusedTags},
			[]string{"fwd", "fwd-status", "stored", "collapsed", "ttl", "detail"},
		},
	} {
		list, err := httpsfv.UnmarshalList([]string{c.status.String()})
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v", c.status, err)
			continue
		}
		item := list[0].(httpsfv.Item)
		if item.Value != httpsfv.Token("isr") || !slices.Equal(item.Params.Names(), c.names) {
			t.Errorf("%s: %v %q, want the parameters %q", c.status, item.Value, item.Params.Names(), c.names)
		}
		if ttl, ok := item.Params.Get("ttl"); ok && ttl != floorSeconds(c.status.TTL) {
			t.Errorf("%s: ttl %v", c.status, ttl)
		}
	}
}
