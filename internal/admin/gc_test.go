package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// collect collects garbage, and returns its bodies and the sum.
func (f *fixture) collect(in admin.Collect) (bodies []string, sum admin.Collected) {
	f.t.Helper()
	whole := false
	for g, err := range f.client().Collect(f.t.Context(), in) {
		switch {
		case err != nil:
			f.t.Fatal(err)
		case whole:
			f.t.Errorf("%+v comes after the sum", g)
		case g.Sum != nil:
			whole, sum = true, *g.Sum
		default:
			bodies = append(bodies, g.Body)
		}
	}
	if !whole {
		f.t.Error("the answer has no sum")
	}
	return bodies, sum
}

// collections counts the bytes of garbage that an observer is told of.
type collections struct {
	isr.Observer
	bytes int64
}

func (c *collections) Note(e isr.Event) {
	if e.Kind == isr.EventCollected {
		c.bytes += e.Bytes
	}
}

func TestCollect(t *testing.T) {
	f := newFixture(t)
	made := f.generations("example.com/", 5) // three are kept
	if bodies, sum := f.collect(admin.Collect{}); len(bodies) != 0 || sum != (admin.Collected{Young: 5}) {
		t.Errorf("of young bodies: %q, %+v", bodies, sum)
	}
	var counted collections
	f.serve(admin.Config{Cache: f.cache, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }, Observer: &counted})
	const grace = 3600
	for range 2 { // the second time it is there still
		bodies, sum := f.collect(admin.Collect{DryRun: true, GraceSeconds: grace})
		if len(bodies) != 2 || sum.Bodies != 2 || sum.Kept != 3 || sum.Bytes != made[0].BodyBytes+made[1].BodyBytes {
			t.Errorf("a dry run: %q, %+v", bodies, sum)
		}
	}
	bodies, sum := f.collect(admin.Collect{GraceSeconds: grace})
	if len(bodies) != 2 || sum.Bodies != 2 || sum.Kept != 3 {
		t.Errorf("%q, %+v; want the two that are kept no longer", bodies, sum)
	}
	if want := made[0].BodyBytes + made[1].BodyBytes; counted.bytes != want {
		t.Errorf("%d bytes are counted, want %d: bytes of the dry runs are not", counted.bytes, want)
	}
	for i, g := range made {
		_, err := f.bodies.Stat(t.Context(), g.Body)
		if gone := errors.Is(err, store.ErrNotFound); gone != (i < 2) || err != nil && !gone {
			t.Errorf("the body of generation %d: %v", i, err)
		}
	}
	if !strings.Contains(f.log.String(), `"action":"collectGarbage","target":"all pages","result":"ok"`) {
		t.Error("no audit line")
	}
	f.ask("POST", "/-/gc", `{"dry_run":true,"grace_seconds":3600}`) // checked against the document
}

func TestCollectRefusesForeignBodies(t *testing.T) {
	f := newFixture(t)
	f.generations("example.com/", 1)
	elsewhere := newFixture(t)
	f.store = elsewhere.store // another table, with the bodies of the first
	f.serve(admin.Config{Now: func() time.Time { return time.Now().Add(48 * time.Hour) }})
	if a := f.ask("POST", "/-/gc", `{}`); a.status != 409 || a.code != "foreign_bodies" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for _, body := range []string{`{"grace_seconds":60}`, `{"grace_seconds":-1}`, `{"grace_seconds":9223372036854775807}`, `{"url":"http://a.example/"}`} {
		if a := f.ask("POST", "/-/gc", body); a.status != 400 || a.code != "invalid_request" {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
}

// TestCollectPurges: a collection compacts purge marks and renews permanent pins.
func TestCollectPurges(t *testing.T) {
	f := newFixture(t)
	f.generations("example.com/", 1)
	if _, err := f.cache.Pin(t.Context(), store.Key{Text: "example.com/"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, target := range []store.PurgeTarget{{Kind: store.PurgeTag, Value: "old"}, {Kind: store.PurgeTenant, Tenant: "t1"}} {
		if _, err := f.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{target}}); err != nil {
			t.Fatal(err)
		}
	}
	f.serve(admin.Config{Cache: f.cache, Now: func() time.Time { return time.Now().Add(60 * 24 * time.Hour) }})
	if _, sum := f.collect(admin.Collect{DryRun: true}); sum.Marks != 0 || sum.Pins != 1 {
		t.Errorf("a dry run: %+v", sum)
	}
	if _, sum := f.collect(admin.Collect{}); sum.Marks != 0 || sum.Pins != 1 {
		t.Errorf("with a pin that is due: %+v", sum)
	}
	if _, err := f.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeSite}}}); err != nil {
		t.Fatal(err)
	}
	if _, sum := f.collect(admin.Collect{DryRun: true}); sum.Marks != 2 {
		t.Errorf("a dry run after a purge of the site: %+v", sum)
	}
	if _, sum := f.collect(admin.Collect{}); sum.Marks != 2 || sum.Pins != 0 {
		t.Errorf("after a purge of the site: %+v", sum)
	}
	marks := 0
	for _, err := range f.store.Marks(t.Context()) {
		if marks++; err != nil {
			t.Fatal(err)
		}
	}
	if marks != 1 {
		t.Errorf("%d marks are left, want 1, of the site", marks)
	}
}
