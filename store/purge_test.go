package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func TestPurgeTargetCovers(t *testing.T) {
	page := store.Key{Tenant: "acme", Text: "example.com/blog/a?page=2"}
	tags := []string{"post-1", "posts"}
	for name, test := range map[string]struct {
		target store.PurgeTarget
		want   bool
	}{
		"key":                        {store.PurgeTarget{Kind: store.PurgeKey, Tenant: "acme", Value: page.Text}, true},
		"key of another tenant":      {store.PurgeTarget{Kind: store.PurgeKey, Value: page.Text}, false},
		"longer key":                 {store.PurgeTarget{Kind: store.PurgeKey, Tenant: "acme", Value: page.Text + "#v"}, false},
		"tag":                        {store.PurgeTarget{Kind: store.PurgeTag, Tenant: "acme", Value: "posts"}, true},
		"part of a tag":              {store.PurgeTarget{Kind: store.PurgeTag, Tenant: "acme", Value: "post"}, false},
		"tag in another case":        {store.PurgeTarget{Kind: store.PurgeTag, Tenant: "acme", Value: "Posts"}, false},
		"prefix":                     {store.PurgeTarget{Kind: store.PurgePrefix, Tenant: "acme", Value: "example.com/blog/"}, true},
		"host":                       {store.PurgeTarget{Kind: store.PurgePrefix, Tenant: "acme", Value: "example.com/"}, true},
		"prefix of another host":     {store.PurgeTarget{Kind: store.PurgePrefix, Tenant: "acme", Value: "example.org/"}, false},
		"prefix of no tenant":        {store.PurgeTarget{Kind: store.PurgePrefix, Value: "example.com/"}, false},
		"tenant":                     {store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "acme"}, true},
		"another tenant":             {store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "acme2"}, false},
		"site":                       {store.PurgeTarget{Kind: store.PurgeSite}, true},
		"unknown kind":               {store.PurgeTarget{Kind: "moon", Tenant: "acme"}, true},
		"unknown kind, other tenant": {store.PurgeTarget{Kind: "moon"}, false},
	} {
		if got := test.target.Covers(page, tags); got != test.want {
			t.Errorf("%s: covered %t, expected %t", name, got, test.want)
		}
	}
}

func TestValidPurgeTargets(t *testing.T) {
	for _, target := range []store.PurgeTarget{
		{Kind: store.PurgeKey, Value: "example.com/"},
		{Kind: store.PurgeTag, Tenant: "acme", Value: "Größe 9"},
		{Kind: store.PurgePrefix, Value: "example.com/blog"},
		{Kind: store.PurgeTenant, Tenant: "acme"},
		{Kind: store.PurgeSite},
	} {
		if err := target.Validate(); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	for _, target := range []store.PurgeTarget{
		{},
		{Kind: "moon", Value: "x"},
		{Kind: store.PurgeKey},
		{Kind: store.PurgePrefix, Value: strings.Repeat("x", 4097)},
		{Kind: store.PurgeTag},
		{Kind: store.PurgeTag, Value: "a\nb"},
		{Kind: store.PurgeTag, Value: "\xff"},
		{Kind: store.PurgeTag, Value: strings.Repeat("x", store.MaxTagLength+1)},
		{Kind: store.PurgeTag, Tenant: "a#b", Value: "x"},
		{Kind: store.PurgeTenant},
		{Kind: store.PurgeTenant, Tenant: "acme", Value: "x"},
		{Kind: store.PurgeSite, Tenant: "acme"},
		{Kind: store.PurgeSite, Value: "x"},
	} {
		if err := target.Validate(); !errors.Is(err, store.ErrInvalidInput) && !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%#v: %v, expected an error for invalid input", target, err)
		}
	}
}

func TestMarkExpires(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := store.Mark{Seq: 9, HardSeq: 3, At: now.Add(-time.Hour), ExpireSeq: 8, ExpireAt: now}
	if got, want := m.State(now.Add(-time.Second)), (store.PurgeState{Seq: 9, HardSeq: 3, At: m.At}); got != want {
		t.Errorf("before it expires: %+v, expected %+v", got, want)
	}
	if got, want := m.State(now), (store.PurgeState{Seq: 9, HardSeq: 8, At: m.At}); got != want {
		t.Errorf("once it has expired: %+v, expected %+v", got, want)
	}
}
