package dynamostore_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

const pk = "CACHE#5f1c"

// A fixture is a store on its own table, with access to the rows.
type fixture struct {
	t     *testing.T
	raw   rawTable
	clock *isrtest.Clock
	store *dynamostore.Store
}

func newFixture(t *testing.T, db engine) *fixture {
	t.Helper()
	clock := isrtest.NewClock(time.Now().Truncate(time.Second).Add(600 * time.Millisecond))
	name := newTable(t, db)
	return &fixture{
		t: t, raw: rawTable{t: t, db: db, name: name}, clock: clock,
		store: newStore(t, db, name, dynamostore.Config{Owner: "node-a", Now: clock.Now}),
	}
}

func (f *fixture) read() store.Record {
	f.t.Helper()
	record, err := f.store.Read(f.t.Context(), pk)
	if err != nil {
		f.t.Fatal(err)
	}
	return record
}

func (f *fixture) acquire() store.Lease {
	f.t.Helper()
	l, err := f.store.Acquire(f.t.Context(), pk, 30*time.Second, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *fixture) publish(next store.Entry) store.Entry {
	f.t.Helper()
	got, err := f.store.Publish(f.t.Context(), f.acquire(), f.read(), next, store.PublishOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// entry returns an entry with every attribute.
func (f *fixture) entry(id string) store.Entry {
	now := f.clock.Now().Truncate(time.Second)
	return store.Entry{
		BodyKey: "bodies/5f1c/" + id, GeneratedAt: now, Revalidate: time.Minute, ETag: `"` + id + `"`,
		Expires: now.Add(24 * time.Hour), GenerationID: id, Key: "example.com/", Route: "home",
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}, "Link": {"<a>", "<b>"}},
		SHA256: "9f86", Length: 12, Tags: []string{"news"}, Stale: time.Hour, PurgeSeq: 3, Build: 2,
		PinnedUntil: now.Add(-time.Hour), AssertedAt: now, RenderTime: 20 * time.Millisecond, InitialAge: 7 * time.Second,
		Peer: netip.MustParseAddrPort("10.0.0.5:7946"),
	}
}

// diff compares entries and attribute values.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{}), cmpopts.IgnoreTypes(document.NoSerde{}))
}
