package dynamostore_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// Units are the consumed capacity of an operation.
type units struct{ Read, Write float64 }

// reported returns the units that an engine reports. DynamoDB Local reports at most four
// write units for a transaction, however many rows it has.
func reported(db engine, items map[string]units) map[string]units {
	if _, isLocal := db.(*dynamodb.Client); !isLocal {
		return items
	}
	for operation, item := range items {
		item.Write = min(item.Write, 4)
		items[operation] = item
	}
	return items
}

// A bill adds up the consumed capacity of a store by operation.
type bill struct {
	mu    sync.Mutex
	items map[string]units // guarded by mu
}

func (b *bill) count(operation string, read, write float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items == nil {
		b.items = make(map[string]units)
	}
	item := b.items[operation]
	b.items[operation] = units{item.Read + read, item.Write + write}
}

// take returns what was consumed since the last time.
func (b *bill) take() map[string]units {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

func total(items map[string]units) (sum units) {
	for _, item := range items {
		sum.Read += item.Read
		sum.Write += item.Write
	}
	return sum
}

// metered is a fixture with a bill, on a table in use.
func metered(t *testing.T, db engine) (*fixture, *bill) {
	t.Helper()
	f, b := newFixture(t, db), &bill{}
	f.raw.put(pk, "PURGE", attrs{"seq": num("1"), "at": num("1")})
	f.raw.put("PURGE", "SEQ", attrs{"seq": num("1"), "mark_lifetime": num("3456000")})
	f.raw.put("PURGE", "LOG#00000000000000000001", attrs{"targets": list()})
	f.store = newStore(t, db, f.raw.name, dynamostore.Config{Owner: "node-a", Now: f.clock.Now, Meter: b.count})
	return f, b
}

// regenerate makes the calls of package isr for one regeneration, after the read that
// found the page stale.
func (f *fixture) regenerate(id string, claim *store.Claim, how store.PublishOptions) {
	f.t.Helper()
	f.read()
	l, err := f.store.Acquire(f.t.Context(), pk, 30*time.Second, claim)
	if err != nil {
		f.t.Fatal(err)
	}
	read := f.read()
	if _, err := f.store.Sequence(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.store.Publish(f.t.Context(), l, read, f.entry(id), how); err != nil {
		f.t.Fatal(err)
	}
	f.clock.Advance(time.Second)
}

// renew renews the current generation.
func (f *fixture) renew(id string) {
	f.regenerate(id, nil, store.PublishOptions{Renew: true, History: true})
}

// TestUnits: the billed units of a page with rows of at most 1 KB. A regeneration
// without history and idempotency must cost five write units and three read units.
func TestUnits(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f, b := metered(t, db)
		want := func(what string, sum units, items map[string]units) {
			t.Helper()
			if total := total(items); total != sum {
				t.Errorf("%s is to cost %+v, and its parts cost %+v", what, sum, total)
			}
			if d := diff(reported(db, items), b.take()); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		want("a hit", units{}, nil)
		regeneration := map[string]units{"read": {Read: 2}, "acquire": {Write: 1}, "sequence": {Read: 1}, "publish": {Write: 4}}
		f.regenerate("g1", nil, store.PublishOptions{})
		want("a cold miss", units{3, 5}, regeneration)
		f.regenerate("g2", nil, store.PublishOptions{})
		want("a regeneration", units{3, 5}, regeneration)

		history := store.PublishOptions{History: true}
		f.regenerate("g3", nil, history)
		want("the first with history", units{3, 7}, map[string]units{
			"read": {Read: 2}, "acquire": {Write: 1}, "sequence": {Read: 1}, "publish with history": {Write: 6},
		})
		f.regenerate("g4", nil, history)
		want("one with history", units{3, 9}, map[string]units{
			"read": {Read: 2}, "acquire": {Write: 1}, "sequence": {Read: 1}, "publish with history": {Write: 8},
		})
		f.renew("g4")
		want("a renewal, with history or without", units{3, 5}, map[string]units{
			"read": {Read: 2}, "acquire": {Write: 1}, "sequence": {Read: 1}, "renew": {Write: 4},
		})
		f.regenerate("g5", nil, store.PublishOptions{History: true, Keep: 2})
		want("one with history that forgets", units{3.5, 10}, map[string]units{
			"read": {Read: 2}, "acquire": {Write: 1}, "sequence": {Read: 1}, "publish with history": {Write: 8}, "prune": {Read: 0.5, Write: 1},
		})
		f.regenerate("g6", newClaim("r1"), store.PublishOptions{})
		want("one with idempotency", units{5, 12}, map[string]units{
			"read": {Read: 2}, "acquire with request": {Read: 2, Write: 4}, "sequence": {Read: 1}, "publish with request": {Write: 8},
		})
		f.regenerate("g7", newClaim("r2"), store.PublishOptions{})
		want("one with idempotency, no version before", units{5, 10}, map[string]units{
			"read": {Read: 2}, "acquire with request": {Read: 2, Write: 4}, "sequence": {Read: 1}, "publish with request": {Write: 6},
		})
		f.regenerate("g8", newClaim("r3"), history)
		want("one with both", units{5, 12}, map[string]units{
			"read": {Read: 2}, "acquire with request": {Read: 2, Write: 4}, "sequence": {Read: 1}, "publish with history and request": {Write: 8},
		})
		// A mark for each read: DynamoDB Local bills nothing for missing items.
		f.mark("t1", "tag", "news", 1)
		f.mark("t1", "prefix", "example.com/", 1)
		f.mark("t1", "tenant", "t1", 1)
		f.mark("", "site", "example.com", 1)
		read := f.read()
		b.take()
		if _, err := f.store.Rollback(t.Context(), read, "g4", f.assertion()); err != nil {
			t.Fatal(err)
		}
		want("a rollback", units{9, 10}, map[string]units{"rollback": {9, 10}})
		read = f.read()
		b.take()
		if _, err := f.store.Pin(t.Context(), read, f.assertion()); err != nil {
			t.Fatal(err)
		}
		want("an unpin", units{1, 6}, map[string]units{"pin": {1, 6}})
		forever := f.assertion()
		forever.PinnedUntil = store.Forever()
		read = f.read()
		b.take()
		if _, err := f.store.Pin(t.Context(), read, forever); err != nil {
			t.Fatal(err)
		}
		want("a pin", units{5, 6}, map[string]units{"pin": {5, 6}})
		l, read := f.acquire(), f.read()
		b.take()
		how := store.PublishOptions{Unpin: true, Key: forever.Key}
		if _, err := f.store.Publish(t.Context(), l, read, f.entry("g9"), how); err != nil {
			t.Fatal(err)
		}
		want("a publish that ends a pin, and history", units{1, 10}, map[string]units{"publish": {1, 10}})
	})
}

// TestUnitsOfOtherCalls: the billed units of each other call.
func TestUnitsOfOtherCalls(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f, b := metered(t, db)
		f.keep("g1")
		ctx, none := t.Context(), store.RequestEnd{}
		scanned := units{Read: 8} // a unit for each segment, even if empty
		if _, isLocal := db.(*dynamodb.Client); isLocal {
			scanned.Read = 2
		}
		var l, claimed store.Lease
		for _, test := range []struct {
			operation string
			want      units
			call      func() error
		}{
			{"changes", units{Read: 2.5}, func() error { _, _, err := f.store.Changes(ctx, 0); return err }}, // the first one
			{"changes", units{Read: 1.5}, func() error { _, _, err := f.store.Changes(ctx, 0); return err }},
			{"changes", units{Read: 1}, func() error { _, _, err := f.store.Changes(ctx, 1); return err }},
			{"versions", units{Read: 1}, func() error { _, err := f.store.Versions(ctx, pk); return err }},
			{"body keys", units{Read: 1}, func() error { _, err := f.store.BodyKeys(ctx, pk); return err }},
			{"acquire", units{Write: 1}, func() error { l = f.acquire(); return nil }},
			{"refresh", units{Write: 1}, func() error { return f.store.Refresh(ctx, l) }},
			{"back off", units{Write: 1}, func() error { return f.store.BackOff(ctx, l, 0) }},
			{"acquire with request", units{2, 4}, func() error { f.clock.Advance(time.Second); claimed = f.claim("r1"); return nil }},
			{"refresh with request", units{Write: 4}, func() error { return f.store.Refresh(ctx, claimed) }},
			{"request", units{Read: 1}, func() error { _, _, err := f.store.RequestRecord(ctx, pk, "r1"); return err }},
			{"end request", units{Write: 1}, func() error { return f.store.EndRequest(ctx, claimed, none) }},
			{"refresh", units{Write: 1}, func() error { return f.store.Refresh(ctx, claimed) }},
			{"release", units{Write: 1}, func() error { return f.store.Release(ctx, claimed) }},
			{"named bodies", scanned, func() (err error) {
				for _, failed := range f.store.ReferencedBodies(ctx) {
					err = errors.Join(err, failed)
				}
				return err
			}},
			{"list", units{Read: 1}, func() error {
				for _, err := range f.store.List(ctx) {
					return err
				}
				return nil
			}},
		} {
			b.take()
			if err := test.call(); err != nil {
				t.Errorf("%s: %v", test.operation, err)
			}
			if d := diff(map[string]units{test.operation: test.want}, b.take()); d != "" {
				t.Errorf("%s (-want +got):\n%s", test.operation, d)
			}
		}
		f.acquire()
		read := f.read()
		b.take()
		if err := f.store.BreakLease(ctx, read); err != nil {
			t.Fatal(err)
		}
		want := units{Write: 2}
		if _, isLocal := db.(*dynamodb.Client); isLocal {
			want.Write = 4 // as for every transaction
		}
		if d := diff(map[string]units{"break lease": want}, b.take()); d != "" {
			t.Errorf("break lease (-want +got):\n%s", d)
		}
	})
}

// TestUnitsOfRepetition: the repetition of a committed transaction is metered as a
// read of the rows, not as a second write.
func TestUnitsOfRepetition(t *testing.T) {
	t.Parallel()
	db := localDynamo(t)
	f, b := metered(t, db)
	api := &faultyAPI{API: db}
	f.store = newStore(t, api, f.raw.name, dynamostore.Config{Now: f.clock.Now, Meter: b.count})
	l, read := f.acquire(), f.read()
	b.take()
	api.arm([]fault{lostReply}, false, nil)
	if _, err := f.store.Publish(t.Context(), l, read, f.entry("g1"), store.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := diff(map[string]units{"publish": {Read: 4}}, b.take()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestUnitsOfPurges: a purge costs the same whatever the number of pages that it covers.
// Purges that share a transaction share its units.
func TestUnitsOfPurges(t *testing.T) {
	t.Parallel()
	db := localDynamo(t)
	f, b := metered(t, db)
	page := store.PurgeTarget{Kind: store.PurgeKey, Value: "example.com/", PK: pk}
	for _, pages := range []int{1, 100} {
		for i := range pages {
			f.raw.put(fmt.Sprintf("CACHE#%d", i), "META", attrs{"s3_key": str("x")})
		}
		for want, p := range map[float64]store.Purge{
			6:  tagsOf("news"),
			8:  tagsOf("news", "sport"),
			12: {Targets: append(tagsOf("news", "sport").Targets, page, store.PurgeTarget{Kind: store.PurgeSite}), Hard: true},
		} {
			b.take()
			receipt := f.purge(p)
			if d := diff(map[string]units{"purge": {Read: 1, Write: want}}, b.take()); d != "" || receipt.WriteUnits != want {
				t.Errorf("%d targets, %d pages: the receipt says %v (-want +got):\n%s", len(p.Targets), pages, receipt.WriteUnits, d)
			}
		}
	}
	b.take()
	var group sync.WaitGroup
	receipts := make([]store.Receipt, 30)
	for i := range receipts {
		group.Go(func() { receipts[i] = f.purge(tagsOf("news", fmt.Sprint("tag-", i))) })
	}
	group.Wait()
	var sum float64
	for _, r := range receipts {
		sum += r.WriteUnits
	}
	if billed := total(b.take()).Write; math.Abs(sum-billed) > 1e-6 || billed >= 30*8 {
		t.Errorf("30 purges of two tags cost %v, their receipts say %v", billed, sum)
	}
}

// TestUnitsOfMarksAndNodes: the billed units of the calls about purges and processes.
func TestUnitsOfMarksAndNodes(t *testing.T) {
	t.Parallel()
	f, b := metered(t, localDynamo(t))
	f.purge(tagsOf("news"))
	ctx, now := t.Context(), f.clock.Now()
	var mark store.Mark
	for _, test := range []struct {
		operation string
		want      units
		call      func() error
	}{
		{"marks", units{Read: 1}, func() (err error) {
			for m, failed := range f.store.Marks(ctx) {
				mark, err = m, failed
			}
			return err
		}},
		{"covering", units{Read: 4}, func() error {
			_, err := f.store.Covering(ctx, store.Key{Text: "example.com/"}, []string{"news"})
			return err
		}},
		{"delete mark", units{Write: 1}, func() error { return f.store.DeleteMark(ctx, mark) }},
		{"build", units{Read: 2, Write: 6}, func() error { _, err := f.store.Build(ctx, "b1"); return err }},
		{"build", units{Read: 1}, func() error { _, err := f.store.Build(ctx, "b1"); return err }},
		{"announce", units{Write: 1}, func() error {
			return f.store.Announce(ctx, store.Node{ID: "a", Since: now, SeenAt: now, Until: now.Add(time.Minute)})
		}},
		{"nodes", units{Read: 1}, func() error { _, err := f.store.Nodes(ctx); return err }},
		{"withdraw", units{Write: 1}, func() error { return f.store.Withdraw(ctx, "a") }},
	} {
		b.take()
		if err := test.call(); err != nil {
			t.Errorf("%s: %v", test.operation, err)
		}
		if d := diff(map[string]units{test.operation: test.want}, b.take()); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.operation, d)
		}
	}
}
