package guard

import (
	"context"
	"iter"
	"time"

	"github.com/facetheory/isr/store"
)

// A guardedTable is a MetaStore whose calls are observed, have deadlines and count in the circuit
// breaker. Methods that a cache does not call, the methods of [store.OutboxStore] and AllQuarantined, are
// passed on.
type guardedTable struct {
	store.MetaStore
	s     *Stores
	begin Begin
}

// probeRequest is the idempotency key of a request that is never made.
const probeRequest = "isr-probe"

// ofPage is a call about a partition. The circuit breaker probes it by reading a request record that
// does not exist: a probe that read the page would have to obey what it read, such as a purge.
func (t *guardedTable) ofPage(name, pk string, timeout time.Duration) call {
	return call{name: name, timeout: timeout, answered: func(ctx context.Context, err error) {
		t.s.answered(ctx, t.s.table, pk, err, func(ctx context.Context) error {
			_, _, err := t.RequestRecord(ctx, pk, probeRequest)
			return err
		})
	}}
}

// ofLog is a call about the log.
func (t *guardedTable) ofLog(name string, timeout time.Duration) call {
	return call{name: name, timeout: timeout, answered: func(ctx context.Context, err error) {
		t.s.answered(ctx, t.s.table, "the log", err, func(ctx context.Context) error {
			_, err := get(ctx, t.begin, call{name: "sequence"}, t.MetaStore.Sequence)
			return err
		})
	}}
}

// changed reports a change that is to be delivered.
func (t *guardedTable) changed(err error) {
	if err == nil {
		t.s.o.Changed()
	}
}

func (t *guardedTable) Read(ctx context.Context, pk string) (store.Record, error) {
	return get(ctx, t.begin, t.ofPage("read", pk, TableTimeout), func(ctx context.Context) (store.Record, error) {
		return t.MetaStore.Read(ctx, pk)
	})
}

func (t *guardedTable) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return get(ctx, t.begin, t.ofPage("read-serializable", pk, TableTimeout), func(ctx context.Context) (store.Record, error) {
		return t.MetaStore.ReadSerializable(ctx, pk)
	})
}

func (t *guardedTable) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	return get(ctx, t.begin, t.ofPage("acquire", pk, TableTimeout), func(ctx context.Context) (store.Lease, error) {
		return t.MetaStore.Acquire(ctx, pk, d, claim)
	})
}

func (t *guardedTable) Refresh(ctx context.Context, l store.Lease) error {
	return do(ctx, t.begin, call{name: "refresh"}, func(ctx context.Context) error { return t.MetaStore.Refresh(ctx, l) })
}

func (t *guardedTable) Release(ctx context.Context, l store.Lease) error {
	return do(ctx, t.begin, call{name: "release"}, func(ctx context.Context) error { return t.MetaStore.Release(ctx, l) })
}

func (t *guardedTable) BackOff(ctx context.Context, l store.Lease, d time.Duration) error {
	return do(ctx, t.begin, call{name: "back-off"}, func(ctx context.Context) error { return t.MetaStore.BackOff(ctx, l, d) })
}

func (t *guardedTable) BreakLease(ctx context.Context, read store.Record) error {
	return do(ctx, t.begin, call{name: "break-lease"}, func(ctx context.Context) error { return t.MetaStore.BreakLease(ctx, read) })
}

// Publish has no deadline but the lease: the store retries until the lease ends, and then
// settles the outcome.
func (t *guardedTable) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	how.Destinations = t.s.o.Destinations()
	e, err := get(ctx, t.begin, t.ofPage("publish", l.PK(), 0), func(ctx context.Context) (store.Entry, error) {
		return t.MetaStore.Publish(ctx, l, read, next, how)
	})
	if how.Reload || read.Entry != nil && read.Entry.PinnedUntil.After(t.s.o.Now()) {
		t.changed(err)
	}
	return e, err
}

func (t *guardedTable) Versions(ctx context.Context, pk string) ([]store.Entry, error) {
	return get(ctx, t.begin, call{name: "versions"}, func(ctx context.Context) ([]store.Entry, error) { return t.MetaStore.Versions(ctx, pk) })
}

func (t *guardedTable) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	a.Destinations = t.s.o.Destinations()
	e, err := get(ctx, t.begin, call{name: "rollback"}, func(ctx context.Context) (store.Entry, error) {
		return t.MetaStore.Rollback(ctx, read, to, a)
	})
	t.changed(err)
	return e, err
}

func (t *guardedTable) Pin(ctx context.Context, read store.Record, a store.Assertion) (store.Entry, error) {
	a.Destinations = t.s.o.Destinations()
	e, err := get(ctx, t.begin, call{name: "pin"}, func(ctx context.Context) (store.Entry, error) { return t.MetaStore.Pin(ctx, read, a) })
	t.changed(err)
	return e, err
}

func (t *guardedTable) RenewPin(ctx context.Context, read store.Record, k store.Key, at time.Time) (store.Entry, error) {
	return get(ctx, t.begin, call{name: "renew-pin"}, func(ctx context.Context) (store.Entry, error) {
		return t.MetaStore.RenewPin(ctx, read, k, at)
	})
}

func (t *guardedTable) RequestRecord(ctx context.Context, pk, key string) (rec store.RequestRecord, found bool, err error) {
	err = do(ctx, t.begin, call{name: "request-record"}, func(ctx context.Context) (err error) {
		rec, found, err = t.MetaStore.RequestRecord(ctx, pk, key)
		return err
	})
	return rec, found, err
}

func (t *guardedTable) EndRequest(ctx context.Context, l store.Lease, how store.RequestEnd) error {
	return do(ctx, t.begin, call{name: "end-request"}, func(ctx context.Context) error { return t.MetaStore.EndRequest(ctx, l, how) })
}

func (t *guardedTable) Sequence(ctx context.Context) (store.Sequence, error) {
	seq, err := get(ctx, t.begin, t.ofLog("sequence", TableTimeout), t.MetaStore.Sequence)
	if err == nil {
		t.s.o.Sequence(seq)
	}
	return seq, err
}

func (t *guardedTable) Changes(ctx context.Context, after int64) (seq store.Sequence, changes []store.Change, err error) {
	err = do(ctx, t.begin, t.ofLog("changes", 0), func(ctx context.Context) (err error) {
		seq, changes, err = t.MetaStore.Changes(ctx, after)
		return err
	})
	if err == nil {
		t.s.o.Sequence(seq)
	}
	return seq, changes, err
}

func (t *guardedTable) Recent(ctx context.Context, upTo int64) ([]store.Change, error) {
	return get(ctx, t.begin, call{name: "recent"}, func(ctx context.Context) ([]store.Change, error) { return t.MetaStore.Recent(ctx, upTo) })
}

func (t *guardedTable) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	p.Destinations = t.s.o.Destinations()
	r, err := get(ctx, t.begin, call{name: "purge"}, func(ctx context.Context) (store.Receipt, error) { return t.MetaStore.Purge(ctx, p) })
	t.changed(err)
	return r, err
}

func (t *guardedTable) Marks(ctx context.Context) iter.Seq2[store.Mark, error] {
	return each(ctx, t.begin, "marks", t.MetaStore.Marks)
}

// Covering belongs to a read of a page.
func (t *guardedTable) Covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error) {
	return get(ctx, t.begin, t.ofLog("covering", TableTimeout), func(ctx context.Context) (store.PurgeState, error) {
		return t.MetaStore.Covering(ctx, k, tags)
	})
}

func (t *guardedTable) DeleteMark(ctx context.Context, m store.Mark) error {
	return do(ctx, t.begin, call{name: "delete-mark"}, func(ctx context.Context) error { return t.MetaStore.DeleteMark(ctx, m) })
}

func (t *guardedTable) Build(ctx context.Context, id string) (int64, error) {
	return get(ctx, t.begin, call{name: "build"}, func(ctx context.Context) (int64, error) { return t.MetaStore.Build(ctx, id) })
}

func (t *guardedTable) AddVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	return do(ctx, t.begin, t.ofPage("add-variant", pk, TableTimeout), func(ctx context.Context) error {
		return t.MetaStore.AddVariant(ctx, pk, k, until)
	})
}

func (t *guardedTable) RemoveVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	return do(ctx, t.begin, t.ofPage("remove-variant", pk, TableTimeout), func(ctx context.Context) error {
		return t.MetaStore.RemoveVariant(ctx, pk, k, until)
	})
}

func (t *guardedTable) Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error) {
	err = do(ctx, t.begin, t.ofPage("variants", pk, TableTimeout), func(ctx context.Context) (err error) {
		texts, more, err = t.MetaStore.Variants(ctx, pk, limit)
		return err
	})
	return texts, more, err
}

func (t *guardedTable) Announce(ctx context.Context, n store.Node) error {
	return do(ctx, t.begin, call{name: "announce"}, func(ctx context.Context) error { return t.MetaStore.Announce(ctx, n) })
}

func (t *guardedTable) Withdraw(ctx context.Context, id string) error {
	return do(ctx, t.begin, call{name: "withdraw"}, func(ctx context.Context) error { return t.MetaStore.Withdraw(ctx, id) })
}

func (t *guardedTable) Nodes(ctx context.Context) ([]store.Node, error) {
	return get(ctx, t.begin, call{name: "nodes", timeout: nodesTimeout}, t.MetaStore.Nodes)
}

func (t *guardedTable) Quarantine(ctx context.Context, l store.Lease, q store.Quarantined) error {
	return do(ctx, t.begin, call{name: "quarantine"}, func(ctx context.Context) error { return t.MetaStore.Quarantine(ctx, l, q) })
}

func (t *guardedTable) Quarantined(ctx context.Context, pk string) (store.Quarantined, error) {
	return get(ctx, t.begin, call{name: "quarantined"}, func(ctx context.Context) (store.Quarantined, error) {
		return t.MetaStore.Quarantined(ctx, pk)
	})
}

func (t *guardedTable) DropQuarantined(ctx context.Context, pk, generation string) error {
	return do(ctx, t.begin, call{name: "drop-quarantined"}, func(ctx context.Context) error {
		return t.MetaStore.DropQuarantined(ctx, pk, generation)
	})
}

func (t *guardedTable) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	return each(ctx, t.begin, "referenced-bodies", t.MetaStore.ReferencedBodies)
}

func (t *guardedTable) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	return get(ctx, t.begin, call{name: "body-keys"}, func(ctx context.Context) ([]string, error) { return t.MetaStore.BodyKeys(ctx, pk) })
}

func (t *guardedTable) PinnedForever(ctx context.Context) iter.Seq2[string, error] {
	return each(ctx, t.begin, "pinned-forever", t.MetaStore.PinnedForever)
}
