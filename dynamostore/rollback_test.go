package dynamostore_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

func isMalformed(err error) bool {
	_, ok := errors.AsType[*dynamostore.MalformedError](err)
	return ok
}

func (f *fixture) assertion() store.Assertion {
	now := f.clock.Now()
	return store.Assertion{Key: store.Key{Tenant: "t1", Text: "example.com/"}, At: now, Expires: now.Add(40 * 24 * time.Hour)}
}

// rollbackReads is the number of calls of a rollback of this file's page before its
// transaction: SEQ, PURGE, the version, and four for the marks: of the page's tags,
// of other kinds on both sides of those in sort order, and of sites.
const rollbackReads = 7

func (f *fixture) rollback(to string, a store.Assertion) store.Entry {
	f.t.Helper()
	got, err := f.store.Rollback(f.t.Context(), f.read(), to, a)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// TestRollbackRows: the rows after a rollback, which other services read.
func TestRollbackRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1")
		f.keep("g2")
		row := f.raw.get(pk, "META")
		row["x_custom"], row["version"] = set("a", "b"), num("5")
		f.raw.put(pk, "META", row)
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("41"), "mark_lifetime": num("3456000"), "x_custom": str("kept")})
		a := f.assertion()
		a.PinnedUntil, a.Superseded = store.Forever(), f.clock.Now().Add(time.Hour)
		got := f.rollback("g1", a)

		want := storedMeta(f.entry("g1"), got.Version)
		want["current_sk"], want["ttl"] = str("VER#g1"), num(seconds(a.Expires))
		want["x_custom"], want["version"] = row["x_custom"], row["version"]
		described := want["isr"].(*types.AttributeValueMemberM).Value
		described["purge_seq"], described["pinned_until"], described["asserted_at"] = num("41"), num("253402300799"), num(seconds(a.At))
		if d := diff(want, f.raw.get(pk, "META")); d != "" {
			t.Errorf("META (-want +got):\n%s", d)
		}
		f.wantTTL("VER#g1", nil)
		f.wantTTL("VER#g2", &a.Superseded)
		if d := diff(attrs{"pk": str("PURGE"), "sk": str("SEQ"), "seq": num("42"), "mark_lifetime": num("3456000"), "x_custom": str("kept")}, f.raw.get("PURGE", "SEQ")); d != "" {
			t.Errorf("SEQ (-want +got):\n%s", d)
		}
		log := f.raw.get("PURGE", "LOG#00000000000000000042")
		if log["id"] == nil {
			t.Error("the row of the log has no id")
		}
		delete(log, "id")
		logged := attrs{
			"pk": str("PURGE"), "sk": str("LOG#00000000000000000042"), "ttl": num(seconds(f.clock.Now().Add(time.Hour + 400*time.Millisecond))),
			"targets": list(obj(attrs{"kind": str("reload"), "tenant": str("t1"), "key": str("example.com/")})),
		}
		if d := diff(logged, log); d != "" {
			t.Errorf("LOG (-want +got):\n%s", d)
		}

		a.PinnedUntil = time.Time{}
		a.Key.Tenant = ""
		if _, err := f.store.Pin(t.Context(), f.read(), a); err != nil {
			t.Fatal(err)
		}
		described["pinned_until"] = num(seconds(f.clock.Now()))
		described["v"] = num(fmt.Sprint(got.Version + 1))
		if d := diff(want, f.raw.get(pk, "META")); d != "" {
			t.Errorf("META after an unpin (-want +got):\n%s", d)
		}
		if d := diff(list(obj(attrs{"kind": str("reload"), "key": str("example.com/")})), f.raw.get("PURGE", "LOG#00000000000000000043")["targets"]); d != "" {
			t.Errorf("LOG of the unpin (-want +got):\n%s", d)
		}
	})
}

// TestRollbackOfPurged: a rollback does not restore what any kind of hard purge
// covers.
func TestRollbackOfPurged(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1") // at sequence 3
		f.keep("g2")
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("9")})
		before := f.read()
		told := before
		told.Purges = store.PurgeState{Seq: 4, HardSeq: 4, At: f.clock.Now()}
		if _, err := f.store.Rollback(t.Context(), told, "g1", f.assertion()); !errors.Is(err, store.ErrPurged) {
			t.Errorf("Rollback, purged by a mark: %v, want ErrPurged", err)
		}
		if _, err := f.store.Pin(t.Context(), told, store.Assertion{Key: f.assertion().Key, PinnedUntil: store.Forever()}); !errors.Is(err, store.ErrPurged) {
			t.Errorf("Pin, purged by a mark: %v, want ErrPurged", err)
		}
		f.raw.put(pk, "PURGE", attrs{"seq": num("5"), "hard_seq": num("5"), "at": num(seconds(f.clock.Now()))})
		for name, read := range map[string]store.Record{"read before": before, "read after": f.read()} {
			if _, err := f.store.Rollback(t.Context(), read, "g1", f.assertion()); !errors.Is(err, store.ErrPurged) {
				t.Errorf("Rollback, purge %s: %v, want ErrPurged", name, err)
			}
		}
		if _, err := f.store.Pin(t.Context(), f.read(), f.assertion()); err != nil {
			t.Errorf("unpinning a purged page: %v", err)
		}
		f.raw.put(pk, "PURGE", attrs{"seq": str("5")})
		if _, err := f.store.Rollback(t.Context(), before, "g1", f.assertion()); !isMalformed(err) {
			t.Errorf("Rollback with a malformed purge: %v, want a MalformedError", err)
		}
	})
}

// TestRollbackDuringPurge: a rollback never undoes a concurrent hard purge, at any
// interleaving.
func TestRollbackDuringPurge(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for when := 1; when <= rollbackReads+2; when++ {
			t.Run(fmt.Sprint(when), func(t *testing.T) {
				r := newRig(t, db)
				r.raw.t = t
				r.keep("g1")
				r.keep("g2")
				r.raw.put("PURGE", "SEQ", attrs{"seq": num("9")})
				read := r.read()
				purged := false
				r.api.arm(nil, false, func(n int) {
					if n == when {
						purged = true
						r.raw.put("PURGE", "SEQ", attrs{"seq": num("10")})
						r.raw.put(pk, "PURGE", attrs{"seq": num("10"), "hard_seq": num("10"), "at": num(seconds(r.clock.Now()))})
					}
				})
				_, err := r.faulty.Rollback(t.Context(), read, "g1", r.assertion())
				now := r.read()
				state := store.Freshness(now.Entry, now.Purges, r.clock.Now())
				if purged && state != store.Purged || !purged && (err != nil || state != store.Fresh) {
					t.Errorf("Rollback: %v, purged=%t, and the page is %v", err, purged, state)
				}
			})
		}
	})
}

// TestRollbackContended: other changes of the log cost a rollback another attempt.
// The entry keeps the sequence that was read first.
func TestRollbackContended(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.keep("g1")
		r.keep("g2")
		other := store.Assertion{Key: store.Key{Text: "example.com/other"}, At: r.clock.Now()}
		l, read := begin(t, r.store, "CACHE#other")
		if _, err := r.store.Publish(t.Context(), l, read, r.entry("o1"), store.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		r.api.arm(nil, false, func(n int) {
			if n != rollbackReads+1 && n != rollbackReads+3 { // the transaction, and the second one
				return
			}
			read, err := r.store.Read(t.Context(), "CACHE#other")
			if err == nil {
				_, err = r.store.Pin(t.Context(), read, other)
			}
			if err != nil {
				t.Error(err)
			}
		})
		got, err := r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion())
		if err != nil || got.PurgeSeq != 0 || len(r.api.sent) != 3 {
			t.Fatalf("Rollback: %+v, %v, after %d requests; want 3", got, err, len(r.api.sent))
		}
		_, changes, err := r.store.Changes(t.Context(), 0)
		if err != nil || len(changes) != 3 || changes[2].Reload[0].Text != "example.com/" {
			t.Errorf("Changes: %+v, %v", changes, err)
		}
	})
}

// TestRollbackFromMalformedRow: a rollback repairs a page with a malformed row.
func TestRollbackFromMalformedRow(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		want := f.keep("g1")
		for name, meta := range map[string]attrs{
			"malformed":       {"s3_key": num("1"), "x_custom": str("a")},
			"theirs":          reference(f.clock.Now(), nil),
			"no row":          nil,
			"broken pointer":  {"current_sk": str("VER#gone")},
			"pointer to self": {"current_sk": str("VER#g1"), "s3_key": num("1"), "isr": obj(attrs{"generation_id": str("g1")})},
		} {
			f.raw.set(pk, "META", meta)
			got := f.rollback("g1", f.assertion())
			if got.BodyKey != want.BodyKey || got.Version <= 0 || got.Status != http.StatusOK {
				t.Errorf("%s: rolled back to %+v", name, got)
			}
			if d := diff(&got, f.read().Entry); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			if d := diff(meta["x_custom"], f.raw.get(pk, "META")["x_custom"]); d != "" {
				t.Errorf("%s: an unknown attribute:\n%s", name, d)
			}
		}
	})
}

// TestRollbackToDeletedVersion: the version is deleted or replaced between the read
// and the transaction.
func TestRollbackToDeletedVersion(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.keep("g1")
		second := r.keep("g2")
		found := r.raw.get(pk, "VER#g1")
		for name, then := range map[string]attrs{"collected": nil, "rewritten": reference(r.clock.Now(), nil)} {
			r.raw.set(pk, "VER#g1", found)
			r.api.arm(nil, false, func(n int) {
				if n == rollbackReads+1 {
					r.raw.set(pk, "VER#g1", then)
				}
			})
			if _, err := r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion()); !errors.Is(err, store.ErrNoVersion) {
				t.Errorf("Rollback, %s: %v, want ErrNoVersion", name, err)
			}
			if d := diff(&second, r.read().Entry); d != "" || r.raw.get("PURGE", "SEQ") != nil {
				t.Errorf("%s: the page changed, or the log tells of it:\n%s", name, d)
			}
		}
	})
}

// TestPinForeignEntry: a row of another service cannot store a pin.
func TestPinForeignEntry(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.raw.put(pk, "META", reference(f.clock.Now(), nil))
		if _, err := f.store.Pin(t.Context(), f.read(), f.assertion()); !errors.Is(err, store.ErrNoVersion) {
			t.Errorf("Pin: %v, want ErrNoVersion", err)
		}
		// A row that a service swapped to a version of ours can.
		f.raw.set(pk, "META", nil)
		f.keep("g1")
		f.raw.put(pk, "META", attrs{"current_sk": str("VER#g1")})
		a := f.assertion()
		a.PinnedUntil = store.Forever()
		got, err := f.store.Pin(t.Context(), f.read(), a)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(&got, f.read().Entry); d != "" || !got.PinnedUntil.Equal(store.Forever()) {
			t.Errorf("pinned until %v (-want +got):\n%s", got.PinnedUntil, d)
		}
	})
}
