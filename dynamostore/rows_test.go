package dynamostore_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// seconds is a time as a number attribute.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// TestStoredRows: the stored attributes, which other services and languages read.
func TestStoredRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		now := f.clock.Now()
		l := f.acquire()
		lock := f.raw.get(pk, "LOCK")
		token := lock["lease_token"]
		delete(lock, "lease_token")
		end := now.Add(30*time.Second + 400*time.Millisecond)
		want := attrs{
			"pk": str(pk), "sk": str("LOCK"), "lease_owner": str("node-a"),
			"lease_expires_at": num(seconds(end)), "ttl": num(seconds(end.Add(time.Hour))),
		}
		if d := diff(want, lock); d != "" {
			t.Errorf("LOCK (-want +got):\n%s", d)
		}

		if err := f.store.BackOff(t.Context(), l, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		lock = f.raw.get(pk, "LOCK")
		if diff(token, lock["lease_token"]) == "" {
			t.Error("the token survived the back-off")
		}
		delete(lock, "lease_token")
		end = now.Add(10*time.Second + 400*time.Millisecond)
		want = attrs{
			"pk": str(pk), "sk": str("LOCK"), "failures": num("1"),
			"lease_expires_at": num(seconds(end)), "ttl": num(seconds(end.Add(time.Hour))),
		}
		if d := diff(want, lock); d != "" {
			t.Errorf("LOCK in back-off (-want +got):\n%s", d)
		}

		f.clock.Set(end)
		next := f.entry("g1")
		version := f.publish(next).Version
		if version != f.clock.Now().UnixMilli() {
			t.Errorf("the first version is %d, want epoch milliseconds", version)
		}
		if d := diff(storedMeta(next, version), f.raw.get(pk, "META")); d != "" {
			t.Errorf("META (-want +got):\n%s", d)
		}
		if lock := f.raw.get(pk, "LOCK"); lock != nil {
			t.Errorf("LOCK after a publish: %v", lock)
		}
	})
}

// storedMeta returns the META row of fixture.entry.
func storedMeta(e store.Entry, version int64) attrs {
	return attrs{
		"pk": str(pk), "sk": str("META"),
		"s3_key": str(e.BodyKey), "generated_at": num(seconds(e.GeneratedAt)), "revalidate_seconds": num("60"),
		"etag": str(e.ETag), "ttl": num(seconds(e.Expires)),
		"isr": obj(attrs{
			"v": num(strconv.FormatInt(version, 10)), "generation_id": str(e.GenerationID),
			"s3_key": str(e.BodyKey), "generated_at": num(seconds(e.GeneratedAt)),
			"key": str("example.com/"), "route": str("home"), "status": num("200"),
			"headers":        obj(attrs{"content-type": list(str("text/html")), "link": list(str("<a>"), str("<b>"))}),
			"content_sha256": str("9f86"), "content_length": num("12"), "tags": list(str("news")),
			"stale_seconds": num("3600"), "purge_seq": num("3"), "build": num("2"),
			"pinned_until": num(seconds(e.PinnedUntil)), "asserted_at": num(seconds(e.AssertedAt)), "render_ms": num("20"), "age_seconds": num("7"), "peer": str("10.0.0.5:7946"),
		}),
	}
}

// TestReferenceRows: rows of services that know only the reference schema.
func TestReferenceRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		generated := f.clock.Now().Truncate(time.Second).UTC()
		base := store.Entry{BodyKey: "pages/a.html", GeneratedAt: generated, Revalidate: time.Minute, Foreign: true, Status: 200}
		for name, test := range map[string]struct {
			row  attrs
			want func(*store.Entry)
		}{
			"required only": {attrs{}, func(*store.Entry) {}},
			"all":           {attrs{"etag": str(`"x"`), "ttl": num("4000000000")}, func(e *store.Entry) { e.ETag, e.Expires = `"x"`, time.Unix(4000000000, 0) }},
			"bucket URL":    {attrs{"s3_key": str("s3://bucket/a")}, func(e *store.Entry) { e.BodyKey = "s3://bucket/a" }},
			"NULL options":  {attrs{"etag": null(), "ttl": null(), "current_sk": null(), "isr": null()}, func(*store.Entry) {}},
			"empty options": {attrs{"etag": str(""), "current_sk": str("")}, func(*store.Entry) {}},
			"fractions": {
				attrs{"generated_at": num(seconds(generated) + ".999999999"), "revalidate_seconds": num("60.5"), "ttl": num("4000000000.7")},
				func(e *store.Entry) { e.Expires = time.Unix(4000000000, 0) },
			},
			"negative window": {attrs{"revalidate_seconds": num("-1")}, func(e *store.Entry) { e.Revalidate = 0 }},
			"endless window":  {attrs{"revalidate_seconds": num("1e30")}, func(e *store.Entry) { e.Revalidate = 3650 * 24 * time.Hour }},
			"ttl in ms":       {attrs{"ttl": num("1700000000000")}, func(e *store.Entry) { e.Expires = time.Unix(253402300799, 0) }},
			"version of its own": {
				attrs{"version": num("5"), "current_sk": str("VER#5")}, func(*store.Entry) {},
			},
			"isr of a stranger": {attrs{"isr": str("yes")}, func(*store.Entry) {}},
			"empty isr":         {attrs{"isr": obj(attrs{})}, func(*store.Entry) {}},
		} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.raw.put(pk, "META", reference(generated, test.row))
				want := base
				test.want(&want)
				record := f.read()
				if record.Malformed != nil {
					t.Fatal(record.Malformed)
				}
				if d := diff(&want, record.Entry); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				f.replaceable(t)
			})
		}
	})
}

// reference returns a row with the attributes that the reference requires, and others.
func reference(generated time.Time, more attrs) attrs {
	row := attrs{"s3_key": str("pages/a.html"), "generated_at": num(seconds(generated)), "revalidate_seconds": num("60")}
	maps.Copy(row, more)
	for name, value := range row {
		if value == nil {
			delete(row, name)
		}
	}
	return row
}

// with returns the fixture for a subtest.
func (f *fixture) with(t *testing.T) *fixture {
	g := *f
	g.t, g.raw.t = t, t
	return &g
}

// replaceable checks that the fence works for any META row: a publish that has read the
// row replaces it, and one that read before another writer does not.
func (f *fixture) replaceable(t *testing.T) {
	t.Helper()
	read := f.read()
	meta := f.raw.get(pk, "META")
	changed := maps.Clone(meta)
	changed["s3_key"] = str("pages/other.html")
	f.raw.put(pk, "META", changed)
	l := f.acquire()
	if _, err := f.store.Publish(t.Context(), l, read, f.entry("g2"), store.PublishOptions{}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("Publish over a change: %v, want ErrMoved", err)
	}
	f.raw.put(pk, "META", meta)
	got, err := f.store.Publish(t.Context(), l, read, f.entry("g2"), store.PublishOptions{})
	if err != nil {
		t.Fatalf("Publish: %v", err)
	}
	if d := diff(&got, f.read().Entry); d != "" {
		t.Errorf("after the publish (-want +got):\n%s", d)
	}
}

// ours returns an isr map that describes the row of reference.
func ours(generated time.Time, more attrs) attrs {
	m := attrs{
		"v": num("7"), "generation_id": str("g1"), "s3_key": str("pages/a.html"), "generated_at": num(seconds(generated)),
		"status": num("200"), "content_length": num("12"),
	}
	maps.Copy(m, more)
	for name, value := range m {
		if value == nil {
			delete(m, name)
		}
	}
	return attrs{"isr": obj(m)}
}

func TestMalformedRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		generated := f.clock.Now()
		for i, test := range []struct {
			attribute string
			row       attrs
		}{
			{"s3_key", attrs{"s3_key": nil}},
			{"s3_key", attrs{"s3_key": str("")}},
			{"s3_key", attrs{"s3_key": num("1")}},
			{"s3_key", attrs{"s3_key": null()}},
			{"s3_key", attrs{"s3_key": set("a", "b")}},
			{"s3_key", attrs{"s3_key": nil, "generated_at": nil, "revalidate_seconds": nil}},
			{"generated_at", attrs{"generated_at": nil}},
			{"generated_at", attrs{"generated_at": str("1700000000")}},
			{"generated_at", attrs{"generated_at": num("1700000000000")}},
			{"generated_at", attrs{"generated_at": num("1e100")}},
			{"generated_at", attrs{"generated_at": num("-1e100")}},
			{"generated_at", attrs{"generated_at": num("-0.5")}},
			{"generated_at", attrs{"generated_at": list()}},
			{"generated_at", attrs{"generated_at": obj(attrs{"a": list(null())})}},
			{"revalidate_seconds", attrs{"revalidate_seconds": nil}},
			{"revalidate_seconds", attrs{"revalidate_seconds": yes()}},
			{"etag", attrs{"etag": bin(1, 2)}},
			{"ttl", attrs{"ttl": str("soon")}},
			{"current_sk", attrs{"current_sk": num("5")}},
			{"current_sk", attrs{"current_sk": str("VER#gone"), "s3_key": nil}},
			{"isr.v", ours(generated, attrs{"v": nil})},
			{"isr.v", ours(generated, attrs{"v": str("7")})},
			{"isr.v", ours(generated, attrs{"v": num("-1")})},
			{"isr.v", ours(generated, attrs{"v": num("1e100")})},
			{"isr.generation_id", ours(generated, attrs{"generation_id": str("")})},
			{"isr.status", ours(generated, attrs{"status": nil})},
			{"isr.status", ours(generated, attrs{"status": num("0")})},
			{"isr.status", ours(generated, attrs{"status": str("200")})},
			{"isr.content_length", ours(generated, attrs{"content_length": num("-1")})},
			{"isr.headers", ours(generated, attrs{"headers": list()})},
			{"isr.headers", ours(generated, attrs{"headers": obj(attrs{"a": str("b")})})},
			{"isr.headers", ours(generated, attrs{"headers": obj(attrs{"a": list(num("1"))})})},
			{"isr.tags", ours(generated, attrs{"tags": set("a")})},
			{"isr.tags", ours(generated, attrs{"tags": list(null())})},
			{"isr.stale_seconds", ours(generated, attrs{"stale_seconds": yes()})},
			{"isr.purge_seq", ours(generated, attrs{"purge_seq": num("-1")})},
			{"isr.pinned_until", ours(generated, attrs{"pinned_until": str("2030")})},
			{"isr.asserted_at", ours(generated, attrs{"asserted_at": num("1e30")})},
			{"isr.key", ours(generated, attrs{"key": bin(1)})},
			{"isr.route", ours(generated, attrs{"route": list()})},
			{"isr.content_sha256", ours(generated, attrs{"content_sha256": bin(1)})},
		} {
			t.Run(fmt.Sprintf("%02d_%s", i, test.attribute), func(t *testing.T) {
				f := f.with(t)
				f.raw.put(pk, "META", reference(generated, test.row))
				record := f.read()
				malformed, ok := errors.AsType[*dynamostore.MalformedError](record.Malformed)
				if !ok || record.Entry != nil {
					t.Fatalf("Read: %+v, %v; want no entry and a MalformedError", record.Entry, record.Malformed)
				}
				if malformed.PK != pk || malformed.SK != "META" || malformed.Attribute != test.attribute {
					t.Errorf("%v: want pk %s, sk META, attribute %s", malformed, pk, test.attribute)
				}
				f.replaceable(t)
			})
		}
	})
}

// TestOtherWriters: this package and another service write in turns.
func TestOtherWriters(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		first := f.publish(f.entry("g1"))

		// Another service updates its attributes and preserves our map.
		row := f.raw.get(pk, "META")
		row["s3_key"], row["x_custom"] = str("pages/theirs.html"), set("a", "b")
		f.raw.put(pk, "META", row)
		if e := f.read().Entry; !e.Foreign || e.Status != 200 || e.Header != nil || e.PurgeSeq != 0 || !e.PinnedUntil.IsZero() {
			t.Errorf("our map was applied to another's content: %+v", e)
		}
		second := f.publish(f.entry("g2"))
		if second.Version != first.Version+1 {
			t.Errorf("version %d was followed by %d", first.Version, second.Version)
		}
		if d := diff(set("a", "b"), f.raw.get(pk, "META")["x_custom"]); d != "" {
			t.Errorf("an unknown attribute did not survive:\n%s", d)
		}

		// The same body with another time is other content.
		row = f.raw.get(pk, "META")
		row["generated_at"] = num(seconds(f.clock.Now().Add(time.Minute)))
		f.raw.put(pk, "META", row)
		if e := f.read().Entry; !e.Foreign {
			t.Errorf("our map was applied to another's time: %+v", e)
		}

		// Another service replaces the whole row.
		f.clock.Advance(time.Hour)
		f.raw.put(pk, "META", reference(f.clock.Now(), attrs{"etag": str("theirs"), "current_sk": str("VER#9")}))
		third := f.publish(store.Entry{BodyKey: "b", GenerationID: "g3", GeneratedAt: f.clock.Now(), Status: 200})
		if third.Version <= second.Version {
			t.Errorf("version %d was followed by %d", second.Version, third.Version)
		}
		row = f.raw.get(pk, "META")
		for _, name := range []string{"etag", "ttl", "current_sk"} {
			if row[name] != nil {
				t.Errorf("%s survived a generation without it: %v", name, row[name])
			}
		}
	})
}

// TestFence: a publish fails after any change of content since its read.
func TestFence(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for name, change := range map[string]func(row attrs){
			"s3_key":             func(row attrs) { row["s3_key"] = str("other") },
			"generated_at":       func(row attrs) { row["generated_at"] = num("1700000000") },
			"pointer swapped":    func(row attrs) { row["current_sk"] = str("VER#other") },
			"republished":        func(row attrs) { row["isr"] = obj(attrs{"v": num("1")}) },
			"map removed":        func(row attrs) { delete(row, "isr") },
			"map replaced":       func(row attrs) { row["isr"] = str("") },
			"attributes removed": func(row attrs) { delete(row, "s3_key"); delete(row, "generated_at"); delete(row, "isr") },
		} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.publish(f.entry("g1"))
				read := f.read()
				row := f.raw.get(pk, "META")
				change(row)
				f.raw.put(pk, "META", row)
				l := f.acquire()
				if _, err := f.store.Publish(t.Context(), l, read, f.entry("g2"), store.PublishOptions{}); !errors.Is(err, store.ErrMoved) {
					t.Errorf("Publish: %v, want ErrMoved", err)
				}
				if d := diff(row, f.raw.get(pk, "META")); d != "" {
					t.Errorf("the row changed:\n%s", d)
				}
				if err := f.store.Release(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// TestFenceOfForeignRows: the same for rows without a version of this package.
func TestFenceOfForeignRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		generated := f.clock.Now()
		for name, test := range map[string]struct{ before, after attrs }{
			"map added":        {reference(generated, nil), reference(generated, ours(generated, nil))},
			"map changed":      {reference(generated, attrs{"isr": str("a")}), reference(generated, attrs{"isr": str("b")})},
			"version added":    {reference(generated, attrs{"isr": obj(attrs{})}), reference(generated, ours(generated, nil))},
			"type changed":     {attrs{"s3_key": num("1")}, attrs{"s3_key": str("1")}},
			"attribute added":  {attrs{}, attrs{"generated_at": num("1")}},
			"empty row is new": {nil, attrs{}},
			"empty row went":   {attrs{}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.raw.set(pk, "META", test.before)
				read := f.read()
				f.raw.set(pk, "META", test.after)
				l := f.acquire()
				if _, err := f.store.Publish(t.Context(), l, read, f.entry("g2"), store.PublishOptions{}); !errors.Is(err, store.ErrMoved) {
					t.Errorf("Publish: %v, want ErrMoved", err)
				}
				if err := f.store.Release(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func TestLockRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		now, later := seconds(f.clock.Now()), seconds(f.clock.Now().Add(time.Hour))
		for name, test := range map[string]struct {
			row  attrs
			free bool
		}{
			"empty":          {attrs{}, true},
			"no expiry":      {attrs{"lease_token": str("t")}, true},
			"text expiry":    {attrs{"lease_expires_at": str("9999999999")}, true},
			"NULL expiry":    {attrs{"lease_expires_at": null()}, true},
			"now":            {attrs{"lease_expires_at": num(now)}, true},
			"within now":     {attrs{"lease_expires_at": num(now + ".5")}, false},
			"negative":       {attrs{"lease_expires_at": num("-1e50")}, true},
			"far":            {attrs{"lease_expires_at": num("1e100")}, true}, // no lease lasts so long
			"milliseconds":   {attrs{"lease_expires_at": num(later + "000")}, true},
			"no token":       {attrs{"lease_expires_at": num(later)}, false},
			"odd rest":       {attrs{"lease_expires_at": num(later), "lease_owner": num("1"), "failures": str("many")}, false},
			"endless counts": {attrs{"lease_expires_at": num(now), "failures": num("1e50")}, true},
			"negative count": {attrs{"lease_expires_at": num(now), "failures": num("-3")}, true},
		} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.raw.put(pk, "LOCK", test.row)
				lock := f.read().Lock
				if free := !lock.HeldAt(f.clock.Now()); free != test.free {
					t.Errorf("Read shows a lease until %v, free=%t, want %t", lock.ExpiresAt, free, test.free)
				}
				l, err := f.store.Acquire(t.Context(), pk, time.Second, nil)
				if !test.free {
					if _, held := errors.AsType[*store.HeldError](err); !held {
						t.Fatalf("Acquire: %v, want a HeldError", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if l.Failures() != lock.Failures || l.Failures() < 0 {
					t.Errorf("%d failures, Read showed %d", l.Failures(), lock.Failures)
				}
			})
		}
	})
}

func TestPurgeRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.publish(f.entry("g1"))
		at := time.Unix(1800000000, 0).UTC()
		f.raw.put(pk, "PURGE", attrs{"seq": num("12"), "hard_seq": num("9"), "at": num("1800000000.25"), "ttl": num("1900000000")})
		want := store.PurgeState{Seq: 12, HardSeq: 9, At: at}
		if record := f.read(); record.Purges != want || record.Entry == nil {
			t.Errorf("Read: cover %+v, want %+v", record.Purges, want)
		}
		for attribute, row := range map[string]attrs{
			"seq":      {"seq": str("12"), "at": num("1")},
			"at":       {"seq": num("12")},
			"hard_seq": {"seq": num("12"), "at": num("1"), "hard_seq": list()},
		} {
			f.raw.put(pk, "PURGE", row)
			record := f.read()
			malformed, ok := errors.AsType[*dynamostore.MalformedError](record.Malformed)
			if !ok || record.Entry != nil || malformed.SK != "PURGE" || malformed.Attribute != attribute {
				t.Errorf("Read with a malformed purge: %+v, %v", record.Entry, record.Malformed)
			}
		}
	})
}

func TestSequenceRow(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("41"), "mark_lifetime": num("86400")})
		got, err := f.store.Sequence(t.Context())
		if want := (store.Sequence{Seq: 41, MarkLifetime: 24 * time.Hour}); err != nil || got != want {
			t.Errorf("Sequence: %+v, %v; want %+v", got, err, want)
		}
		for _, row := range []attrs{{}, {"seq": str("1")}, {"seq": num("-1")}, {"seq": num("1e40")}, {"seq": num("1"), "mark_lifetime": yes()}} {
			f.raw.put("PURGE", "SEQ", row)
			if got, err := f.store.Sequence(t.Context()); err == nil || !strings.Contains(err.Error(), "sk=SEQ") {
				t.Errorf("Sequence of %v: %+v, %v; want an error that names the row", row, got, err)
			}
		}
	})
}

// TestForeignRowsBetweenOurs: Read skips any number of foreign rows between ours.
func TestForeignRowsBetweenOurs(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		want := f.publish(f.entry("g1"))
		for i := range 5 {
			f.raw.put(pk, fmt.Sprintf("NOTE#%d", i), attrs{"text": str(strings.Repeat("x", 300<<10))})
		}
		for _, sk := range []string{"AAA", "LOCK2", "META ", "PURG", "PURGE#1", "REQ#1", "VER#g0", "meta"} {
			f.raw.put(pk, sk, attrs{"s3_key": str("wrong"), "lease_expires_at": num("9999999999")})
		}
		f.raw.put(pk, "PURGE", attrs{"seq": num("2"), "at": num("1")})
		record := f.read()
		if d := diff(&want, record.Entry); d != "" || record.Lock != nil || record.Purges.Seq != 2 {
			t.Errorf("Read: lock %+v, cover %+v, entry (-want +got):\n%s", record.Lock, record.Purges, d)
		}
	})
}
