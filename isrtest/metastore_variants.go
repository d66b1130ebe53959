package isrtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// testVariants: variants are listed once each in the partition of their page, beside its
// rows, at least for as long as was asked for.
func testVariants(t *testing.T, f *fleet) {
	add := func(meta store.MetaStore, variant string, until time.Time) {
		t.Helper()
		if err := meta.AddVariant(t.Context(), testPK, store.Key{Text: "example.com/news#" + variant}, until); err != nil {
			t.Fatalf("AddVariant(%s): %v", variant, err)
		}
	}
	want := func(limit int, want int, wantMore bool) []string {
		t.Helper()
		texts, more, err := f.b.Variants(t.Context(), testPK, limit)
		slices.Sort(texts)
		if err != nil || len(texts) != want || more != wantMore || len(slices.Compact(slices.Clone(texts))) != want {
			t.Errorf("Variants, at most %d: %q, %t, %v; want %d, %t", limit, texts, more, err, want, wantMore)
		}
		return texts
	}
	want(10, 0, false)
	f.publish(f.a, testPK, f.entry("1"))
	add(f.a, "lang=de", f.clock.Now().Add(time.Hour))
	add(f.b, "lang=de", f.clock.Now().Add(time.Minute))
	add(f.b, "lang=de", time.Time{})
	add(f.b, "lang=en", f.clock.Now().Add(time.Hour))
	f.clock.Advance(time.Minute)
	if got := want(10, 2, false); !slices.Equal(got, []string{"example.com/news#lang=de", "example.com/news#lang=en"}) {
		t.Errorf("%q", got)
	}
	want(2, 2, false)
	want(1, 1, true)
	for i := range 300 {
		add(f.a, fmt.Sprint("lang=", i), time.Time{})
	}
	want(301, 301, true)
	want(302, 302, false)
	if rec := f.read(f.b, testPK); rec.Entry == nil || rec.Entry.GenerationID != "1" {
		t.Errorf("the page beside its variants: %+v", rec.Entry)
	}

	// A variant that was listed until another time stays.
	until := f.clock.Now().Add(time.Hour)
	add(f.a, "lang=fr", until)
	for _, c := range []struct {
		variant string
		until   time.Time
		left    int
	}{{"lang=fr", until.Add(time.Minute), 303}, {"lang=fr", until, 302}, {"lang=fr", until, 302}, {"lang=de", until, 302}} {
		if err := f.b.RemoveVariant(t.Context(), testPK, store.Key{Text: "example.com/news#" + c.variant}, c.until); err != nil {
			t.Errorf("RemoveVariant(%s): %v", c.variant, err)
		}
		want(400, c.left, false)
	}
	for name, err := range map[string]error{
		"no variant":       f.a.AddVariant(t.Context(), testPK, store.Key{Text: "example.com/news"}, time.Time{}),
		"no key":           f.a.AddVariant(t.Context(), testPK, store.Key{}, time.Time{}),
		"no partition":     f.a.AddVariant(t.Context(), "", store.Key{Text: "example.com/news#a=b"}, time.Time{}),
		"a time before it": f.a.AddVariant(t.Context(), testPK, store.Key{Text: "example.com/news#a=b"}, time.Unix(-1, 0)),
	} {
		if !errors.Is(err, store.ErrInvalidKey) && !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("AddVariant of %s: %v", name, err)
		}
	}
}
