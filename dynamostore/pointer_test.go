package dynamostore_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// TestPointers: META rows that point to a version row.
func TestPointers(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		generated := f.clock.Now().Truncate(time.Second)
		theirs := attrs{"s3_key": str("pages/v2.html"), "generated_at": num(seconds(generated)), "revalidate_seconds": num("9"), "etag": str("v2")}
		f.raw.put(pk, "VER#v2", theirs)
		mapped := maps.Clone(theirs)
		maps.Copy(mapped, ours(generated, attrs{"generation_id": str("v3"), "s3_key": str("pages/v2.html"), "v": num("99"), "status": num("404")}))
		f.raw.put(pk, "VER#v3", mapped)
		own := func(more attrs) attrs {
			row := reference(generated, ours(generated, nil))
			maps.Copy(row, more)
			return row
		}
		for name, test := range map[string]struct {
			row        attrs
			body       string
			foreign    bool
			status     int
			version    int64
			collection time.Time
		}{
			"pointer alone":         {row: attrs{"current_sk": str("VER#v2"), "ttl": num("4000000000")}, body: "pages/v2.html", foreign: true, status: 200, collection: time.Unix(4000000000, 0)},
			"pointer to ours":       {row: attrs{"current_sk": str("VER#v3")}, body: "pages/v2.html", status: 404},
			"content beside it":     {row: reference(generated, attrs{"current_sk": str("VER#v2")}), body: "pages/a.html", foreign: true, status: 200},
			"our own pointer":       {row: own(attrs{"current_sk": str("VER#g1")}), body: "pages/a.html", status: 200, version: 7},
			"swapped after us":      {row: own(attrs{"current_sk": str("VER#v2")}), body: "pages/v2.html", foreign: true, status: 200},
			"swapped to ours":       {row: own(attrs{"current_sk": str("VER#v3")}), body: "pages/v2.html", status: 404, version: 7},
			"swapped with its time": {row: own(attrs{"current_sk": str("VER#v2"), "generated_at": num("1700000000"), "etag": str("v2")}), body: "pages/v2.html", foreign: true, status: 200},
		} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.raw.put(pk, "META", test.row)
				record := f.read()
				e := record.Entry
				if e == nil {
					t.Fatalf("there is no entry: %v", record.Malformed)
				}
				if e.BodyKey != test.body || e.Foreign != test.foreign || e.Status != test.status || e.Version != test.version || !e.Expires.Equal(test.collection) {
					t.Errorf("Read: %+v, want %+v", e, test)
				}
				f.replaceable(t)
				if f.raw.get(pk, "META")["current_sk"] != nil {
					t.Error("the pointer survived the publish")
				}
			})
		}
	})
}

// TestBrokenPointers: pointers to a missing row and to a malformed one.
func TestBrokenPointers(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.raw.put(pk, "VER#bad", attrs{"s3_key": str("pages/v2.html")})
		for current, want := range map[string]dynamostore.MalformedError{
			"VER#gone": {SK: "META", Attribute: "current_sk"},
			"VER#bad":  {SK: "VER#bad", Attribute: "generated_at"},
			"META":     {SK: "META", Attribute: "s3_key"},
		} {
			f.raw.put(pk, "META", attrs{"current_sk": str(current)})
			record := f.read()
			got, ok := errors.AsType[*dynamostore.MalformedError](record.Malformed)
			if !ok || record.Entry != nil || got.PK != pk || got.SK != want.SK || got.Attribute != want.Attribute {
				t.Errorf("%s: %+v, %v", current, record.Entry, record.Malformed)
			}
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		want := f.publish(f.entry("g1"))
		f.acquire()
		f.raw.put("CACHE#bad", "META", attrs{"s3_key": num("1")})
		f.raw.put("CACHE#locked", "LOCK", attrs{"lease_expires_at": num("9999999999"), "lease_owner": str("node-z")})
		f.raw.put("CACHE#purged", "PURGE", attrs{"seq": num("4"), "at": num("1")})
		f.raw.put("CACHE#versions", "VER#1", attrs{"s3_key": str("a")})
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("4")})
		found := map[string]store.Record{}
		for page, err := range f.store.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := found[page.PK]; twice {
				t.Errorf("%s is listed twice", page.PK)
			}
			found[page.PK] = page.Record
		}
		if len(found) != 4 {
			t.Errorf("%d pages are listed, want 4: %v", len(found), found)
		}
		if d := diff(&want, found[pk].Entry); d != "" || found[pk].Lock == nil {
			t.Errorf("%s: lock %+v, entry (-want +got):\n%s", pk, found[pk].Lock, d)
		}
		if found["CACHE#bad"].Malformed == nil || found["CACHE#locked"].Lock.Owner != "node-z" || found["CACHE#purged"].Purges.Seq != 4 {
			t.Errorf("%+v", found)
		}
		for range f.store.List(t.Context()) {
			break // a caller may stop
		}
	})
}

// TestListMany: partitions that span result pages of a scan.
func TestListMany(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		const pages = 40
		for i := range pages {
			key := pk + string(rune('A'+i))
			f.raw.put(key, "LOCK", attrs{"lease_expires_at": num("1")})
			f.raw.put(key, "META", reference(f.clock.Now(), attrs{"filler": str(string(make([]byte, 100<<10)))}))
			f.raw.put(key, "PURGE", attrs{"seq": num("1"), "at": num("1")})
		}
		whole := 0
		for page, err := range f.store.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if page.Record.Entry != nil && page.Record.Lock != nil && page.Record.Purges.Seq == 1 {
				whole++
			}
		}
		if whole != pages {
			t.Errorf("%d whole pages are listed, want %d", whole, pages)
		}
	})
}
