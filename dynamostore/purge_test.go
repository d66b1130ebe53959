package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

func tagsOf(tags ...string) store.Purge {
	var p store.Purge
	for _, tag := range tags {
		p.Targets = append(p.Targets, store.PurgeTarget{Kind: store.PurgeTag, Value: tag})
	}
	return p
}

func (f *fixture) purge(p store.Purge) store.Receipt {
	f.t.Helper()
	receipt, err := f.store.Purge(f.t.Context(), p)
	if err != nil {
		f.t.Fatal(err)
	}
	return receipt
}

// TestPurgedRows: the rows that purges write. A soft purge leaves hard_seq, and what
// other writers have stored.
func TestPurgedRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		now := f.clock.Now()
		site, page := store.PurgeTarget{Kind: store.PurgeSite}, store.PurgeTarget{Kind: store.PurgeKey, Tenant: "t1", Value: "example.com/", PK: pk}
		f.raw.put(pk, "PURGE", attrs{"seq": num("0"), "at": num("1"), "theirs": str("x")})
		f.purge(store.Purge{Targets: []store.PurgeTarget{site, page, {Kind: store.PurgeTenant, Tenant: "t1"}}, Hard: true})
		f.clock.Advance(time.Minute)
		f.purge(store.Purge{Targets: []store.PurgeTarget{page, site, page}, Confirm: true})

		lifetime := int64(store.MinMarkLifetime / time.Second)
		purged := func(seq string, at time.Time, more attrs) attrs {
			row := attrs{"seq": num(seq), "hard_seq": num("1"), "at": num(seconds(at)), "ttl": num(fmt.Sprint(at.Unix() + lifetime + 1))}
			maps.Copy(row, more)
			return row
		}
		later := now.Add(time.Minute)
		for key, want := range map[[2]string]attrs{
			{"PURGE", "SEQ"}: {"seq": num("2"), "mark_lifetime": num(fmt.Sprint(lifetime))},
			{"PURGE", "MARK##site#684888c0ebb17f374298b65ee2807526c066094c701bcc7ebbe1c1095f494fc1"}:     purged("2", later, attrs{"value": str("*")}),
			{"PURGE", "MARK#t1#tenant#628b49d96dcde97a430dd4f597705899e09a968f793491e4b704cae33a40dc02"}: purged("1", now, attrs{"value": str("t1")}),
			{pk, "PURGE"}: purged("2", later, attrs{"theirs": str("x")}),
		} {
			got := f.raw.get(key[0], key[1])
			delete(got, "pk")
			delete(got, "sk")
			if diff := diff(want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", key, diff)
			}
		}
		_, changes, err := f.store.Changes(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		at := now.Truncate(time.Second).UTC()
		reload := []store.Key{{Tenant: "t1", Text: "example.com/"}}
		want := []store.Change{
			{Seq: 1, Reload: reload, Marks: []store.Mark{
				{Target: site, Seq: 1, HardSeq: 1, At: at},
				{Target: store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "t1"}, Seq: 1, HardSeq: 1, At: at},
			}},
			{Seq: 2, Reload: reload, Marks: []store.Mark{{Target: site, Seq: 2, At: at.Add(time.Minute)}}, Confirm: true},
		}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
	})
}

// TestPurgesShareTransactions: concurrent purges share transactions, also purges of one
// tag, and each gets the sequence of its transaction.
func TestPurgesShareTransactions(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		const purges = 300
		receipts := make([]store.Receipt, purges)
		var group sync.WaitGroup
		for i := range purges {
			group.Go(func() {
				p := tagsOf(fmt.Sprintf("tag-%d", i/2), "all")
				p.Hard = i%2 == 0
				var err error
				if receipts[i], err = f.store.Purge(t.Context(), p); err != nil {
					t.Errorf("purge %d: %v", i, err)
				}
			})
		}
		group.Wait()
		_, changes, err := f.store.Changes(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) > purges/4 {
			t.Errorf("%d purges needed %d transactions", purges, len(changes))
		}
		for i, receipt := range receipts {
			if receipt.Seq < 1 || receipt.Seq > int64(len(changes)) {
				t.Fatalf("purge %d has the sequence %d of %d", i, receipt.Seq, len(changes))
			}
			marks := changes[receipt.Seq-1].Marks
			if len(marks) > 98 {
				t.Errorf("a transaction has %d marks", len(marks))
			}
			found := 0
			for _, m := range marks {
				if m.Target.Value == fmt.Sprintf("tag-%d", i/2) {
					found++
					if i%2 == 0 && m.HardSeq != receipt.Seq {
						t.Errorf("purge %d was hard, its mark is %+v", i, m)
					}
				}
			}
			if found != 1 {
				t.Errorf("change %d has %d marks of purge %d", receipt.Seq, found, i)
			}
		}
		if _, err := f.store.Purge(endedContext(t), tagsOf("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("by a caller that has left: %v", err)
		}
	})
}

func endedContext(t *testing.T) context.Context {
	ctx, end := context.WithCancel(t.Context())
	end()
	return ctx
}

// TestLargestPurge: as many targets as are allowed, with the longest texts, fit into a
// transaction; more are refused.
func TestLargestPurge(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		var p store.Purge
		for i := range store.MaxPurgeTargets {
			value := fmt.Sprintf("%02d", i) + strings.Repeat("x", store.MaxPurgeSize/store.MaxPurgeTargets-4)
			p.Targets = append(p.Targets, store.PurgeTarget{Kind: store.PurgePrefix, Tenant: "t1", Value: value})
		}
		f.purge(p)
		for name, bad := range map[string]store.Purge{
			"none":       {},
			"too many":   {Targets: append(p.Targets, p.Targets[0])},
			"too long":   {Targets: append([]store.PurgeTarget{{Kind: store.PurgeKey, Value: strings.Repeat("y", 4096), PK: pk}}, p.Targets[1:]...)},
			"no pk":      {Targets: []store.PurgeTarget{{Kind: store.PurgeKey, Value: "example.com/"}}},
			"pk of log":  {Targets: []store.PurgeTarget{{Kind: store.PurgeKey, Value: "example.com/", PK: "PURGE"}}},
			"bad target": {Targets: []store.PurgeTarget{{Kind: store.PurgeTag}}},
		} {
			if _, err := f.store.Purge(t.Context(), bad); !errors.Is(err, store.ErrInvalidInput) && !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if seq, err := f.store.Sequence(t.Context()); err != nil || seq.Seq != 1 {
			t.Errorf("after refused purges: %+v, %v", seq, err)
		}
	})
}

// TestMarkLifetime: the marks of all writers are kept as long as the longest demand.
func TestMarkLifetime(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		long := newStore(t, db, f.raw.name, dynamostore.Config{Now: f.clock.Now, MarkLifetime: 200 * 24 * time.Hour})
		if _, err := long.Purge(t.Context(), tagsOf("a")); err != nil {
			t.Fatal(err)
		}
		f.purge(tagsOf("b"))
		if seq, err := f.store.Sequence(t.Context()); err != nil || seq.MarkLifetime != 200*24*time.Hour {
			t.Errorf("Sequence: %+v, %v", seq, err)
		}
		ttl := num(fmt.Sprint(f.clock.Now().Unix() + 200*24*3600 + 1))
		if diff := diff(ttl, f.raw.get("PURGE", "MARK##tag#3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d")["ttl"]); diff != "" {
			t.Errorf("ttl (-want +got):\n%s", diff)
		}
	})
}
