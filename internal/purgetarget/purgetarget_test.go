package purgetarget

import (
	"errors"
	"testing"

	"github.com/facetheory/isr/store"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		kind, tenant, value string
		want                store.PurgeTarget
	}{
		{"url", "", "https://Example.com:443/a?b=1", store.PurgeTarget{Kind: store.PurgeKey, Value: "example.com/a?b=1"}},
		{"url", "acme", "example.com/a#x=1", store.PurgeTarget{Kind: store.PurgeKey, Tenant: "acme", Value: "example.com/a#x=1"}},
		{"url", "", "http://h/Prés", store.PurgeTarget{Kind: store.PurgeKey, Value: "h/Pr%C3%A9s"}},
		{"url", "", "http://h/Pr%c3%a9s?q=é", store.PurgeTarget{Kind: store.PurgeKey, Value: "h/Pr%C3%A9s?q=%C3%A9"}},
		{"url", "", "https://münchen.example/a/../b#top", store.PurgeTarget{Kind: store.PurgeKey, Value: "xn--mnchen-3ya.example/b"}},
		{"url", "", "h/a/../b", store.PurgeTarget{Kind: store.PurgeKey, Value: "h/a/../b"}},
		{"prefix", "", "münchen.example/Pré", store.PurgeTarget{Kind: store.PurgePrefix, Value: "xn--mnchen-3ya.example/Pr%C3%A9"}},
		{"prefix", "", "http://h/blog/..", store.PurgeTarget{Kind: store.PurgePrefix, Value: "h/blog/.."}},
		{"host", "", "münchen.example:8080", store.PurgeTarget{Kind: store.PurgePrefix, Value: "xn--mnchen-3ya.example:8080/"}},
		{"tag", "acme", "Product 7", store.PurgeTarget{Kind: store.PurgeTag, Tenant: "acme", Value: "Product 7"}},
		{"prefix", "", "http://Example.com/b%6Cog", store.PurgeTarget{Kind: store.PurgePrefix, Value: "example.com/blog"}},
		{"prefix", "", "example.com/search?q=a", store.PurgeTarget{Kind: store.PurgePrefix, Value: "example.com/search?q=a"}},
		{"host", "", "Example.com", store.PurgeTarget{Kind: store.PurgePrefix, Value: "example.com/"}},
		{"tenant", "", "acme", store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "acme"}},
		{"tenant", "acme", "acme", store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "acme"}},
		{"all", "", "", store.PurgeTarget{Kind: store.PurgeSite}},
	} {
		if got, err := Parse(c.kind, c.tenant, c.value); err != nil || got != c.want {
			t.Errorf("%s %q of %q: %+v, %v; expected %+v", c.kind, c.value, c.tenant, got, err, c.want)
		}
	}
}

func TestInvalidTargets(t *testing.T) {
	for _, c := range [][3]string{
		{"moon", "", "x"},
		{"url", "", ""},
		{"url", "", "http://é@h/"},
		{"url", "", "http://h/é?a=%zz"},
		{"url", "", "http://a\ufffd/"},
		{"url", "", "example.com/*"},
		{"tag", "", ""},
		{"tag", "a#b", "x"},
		{"prefix", "", "/blog/"},
		{"prefix", "", "example.com"},
		{"prefix", "", "exam"},
		{"prefix", "", "example.com/b*"},
		{"host", "", "example.com/a"},
		{"host", "", ""},
		{"tenant", "acme", "other"},
		{"tenant", "", ""},
		{"all", "acme", ""},
	} {
		got, err := Parse(c[0], c[1], c[2])
		if !errors.Is(err, store.ErrInvalidInput) && !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%s %q of %q: %+v, %v; expected an error", c[0], c[2], c[1], got, err)
		}
	}
	for _, fields := range []PurgeTarget{{}, {Tag: "a", Host: "b"}, {Tag: "a", All: true}} {
		if err := fields.Validate(""); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("%+v: %v", fields, err)
		}
	}
}
