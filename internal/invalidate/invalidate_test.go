package invalidate

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// A table has a fresh entry of every page, and counts what purges do.
type table struct {
	mu        sync.Mutex
	purged    map[string]int // guarded by mu: by the text of the key
	dropped   int            // guarded by mu
	working   int            // guarded by mu
	reads     int            // guarded by mu: in progress
	mostReads int            // guarded by mu
	complaint string         // guarded by mu: the last one
}

func (tb *table) add(n *int, by int) int {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	*n += by
	return *n
}

func (tb *table) options() Options {
	tb.purged = make(map[string]int)
	return Options{
		Variants: func(context.Context, store.Key, int) ([]store.Key, bool, error) { return nil, false, nil },
		Records: func(_ context.Context, pages []store.Key) ([]store.Record, error) {
			tb.mu.Lock()
			tb.reads++
			tb.mostReads = max(tb.mostReads, tb.reads)
			tb.mu.Unlock()
			time.Sleep(time.Millisecond)
			tb.add(&tb.reads, -1)
			records := make([]store.Record, len(pages))
			for n := range records {
				records[n].Entry = &store.Entry{BodyKey: "b", GeneratedAt: time.Now(), Revalidate: time.Hour}
			}
			return records, nil
		},
		Pinned: func(store.Record) bool { return false },
		Target: func(k store.Key) store.PurgeTarget {
			return store.PurgeTarget{Kind: store.PurgeKey, Tenant: k.Tenant, Value: k.Text}
		},
		Targets: func(store.Key) ([]store.PurgeTarget, error) { return nil, nil },
		Commit: func(_ context.Context, p store.Purge) (store.Receipt, error) {
			for _, t := range p.Targets {
				tb.mu.Lock()
				tb.purged[t.Value]++
				tb.mu.Unlock()
			}
			return store.Receipt{Seq: 1}, nil
		},
		Drop:  func(...store.Key) { tb.add(&tb.dropped, 1) },
		Down:  func() error { return nil },
		Begin: func() { tb.add(&tb.working, 1) }, End: func() { tb.add(&tb.working, -1) },
		Complain: func(msg string, _ ...any) {
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.complaint = msg
		},
		Now: time.Now, Random: func() uint64 { return 0 },
	}
}

// client returns one of many clients.
func client(n int) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 10<<24+uint32(n)) //nolint:gosec // small
	return netip.PrefixFrom(netip.AddrFrom4(a), 32)
}

func changed(n int) Change {
	k := store.Key{Text: fmt.Sprint("site/", n)}
	return Change{Page: k, Variant: k, Hard: true}
}

// A client has its share of the pages that may wait, and all clients together have their bound. What
// is beyond these is dropped from memory, and what is within them is purged.
func TestPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := new(table)
		purges := New(t.Context(), tb.options())
		for n := range maxClientInvalidations + 1 {
			purges.Add(changed(n), client(0))
		}
		if len(purges.byPage) != maxClientInvalidations || tb.complaint == "" {
			t.Errorf("a client has %d pages, complaint %q", len(purges.byPage), tb.complaint)
		}
		for n := range maxInvalidations {
			purges.Add(changed(2*maxInvalidations+n), client(1+n))
		}
		if len(purges.byPage) != maxInvalidations {
			t.Errorf("there are %d pages", len(purges.byPage))
		}
		purges.Shut()
		if purges.Add(changed(-1), client(0)) != nil {
			t.Error("a page was accepted after Shut")
		}
		if err := purges.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(tb.purged) != maxInvalidations || tb.mostReads > maxInvalidating || tb.working != 0 || len(purges.byPage) != 0 || len(purges.byClient) != 0 {
			t.Errorf("%d pages were purged, %d reads at once, %d in progress, %d pages and %d clients left", len(tb.purged), tb.mostReads, tb.working, len(purges.byPage), len(purges.byClient))
		}
	})
}

// Requests for one page are merged: each is followed by a purge, and a page is purged once a second
// at most.
func TestRequestsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := new(table)
		purges := New(t.Context(), tb.options())
		<-purges.Add(changed(1), client(1))
		for range 100 {
			if purges.Add(changed(1), client(1)) != nil {
				t.Fatal("a request waits for a purge that follows later")
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * invalidateEvery)
		purges.Shut()
		if err := purges.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := tb.purged["site/1"]; n < 6 || n > 7 {
			t.Errorf("purged %d times in 5 seconds and once after them", n)
		}
	})
}

// A client pays a second of rendering per second, and maxCreditClients are known one by one.
func TestCredit(t *testing.T) {
	now := time.Now()
	c := make(credit)
	pay := func(n int, cost time.Duration) time.Duration {
		due, payer := c.cheapest([]netip.Prefix{client(n)}, cost, now)
		c.charge(payer, cost, now)
		return max(due.Sub(now), 0)
	}
	if wait := pay(0, creditLimit); wait != 0 {
		t.Errorf("the first purges wait %v", wait)
	}
	if wait := pay(0, 5*time.Second); wait != 5*time.Second {
		t.Errorf("a client without credit waits %v", wait)
	}
	if _, payer := c.cheapest([]netip.Prefix{client(0), client(1)}, time.Second, now); payer != client(1) {
		t.Errorf("%v pays", payer)
	}
	for n := range 2 * maxCreditClients {
		pay(n, creditLimit)
	}
	if len(c) > maxCreditClients+1 {
		t.Errorf("%d clients are known", len(c))
	}
	now = now.Add(24 * 365 * time.Hour)
	if wait := pay(3*maxCreditClients, time.Second); wait != 0 || len(c) > 2 {
		t.Errorf("after a year: %v, %d clients are known", wait, len(c))
	}
}
