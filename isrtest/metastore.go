package isrtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/store"
)

// A MetaStoreOpener returns one node's view of a storage: a store that writes
// owner into its leases and takes the time from now. All views of one opener
// share the stored data. It is called from the subtest's goroutine.
type MetaStoreOpener func(owner string, now func() time.Time) store.MetaStore

// MetaStore checks the contract of [store.MetaStore] on one implementation.
//
// storage is called once per subtest, from several goroutines at once, because
// the subtests run in parallel. It returns the opener of an empty storage that no
// other subtest uses, and closes what it opens with t.Cleanup.
func MetaStore(t *testing.T, storage func(t *testing.T) MetaStoreOpener) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fleet)
	}{
		{"Empty", testMetaEmpty},
		{"LeaseIsExclusive", testLeaseIsExclusive},
		{"LeaseOfOneOwner", testLeaseOfOneOwner},
		{"LeaseRoundsUp", testLeaseRoundsUp},
		{"LeaseExpires", testLeaseExpires},
		{"LeasesOfOtherPages", testLeasesOfOtherPages},
		{"RefreshExtends", testRefreshExtends},
		{"RefreshTooLate", testRefreshTooLate},
		{"Release", testRelease},
		{"BackOff", testBackOff},
		{"BackOffCountsFailures", testBackOffCountsFailures},
		{"LostLeaseIsHarmless", testLostLeaseIsHarmless},
		{"ForeignLease", testForeignLease},
		{"PublishFirst", testPublishFirst},
		{"PublishAgain", testPublishAgain},
		{"PublishReplacesAll", testPublishReplacesAll},
		{"PublishRoundTrip", testPublishRoundTrip},
		{"PublishKeepsNoReference", testPublishKeepsNoReference},
		{"PublishByStaleHolder", testPublishByStaleHolder},
		{"PublishTwice", testPublishTwice},
		{"PublishMoved", testPublishMoved},
		{"PublishMovedFromNothing", testPublishMovedFromNothing},
		{"Renew", testRenew},
		{"RenewKeepsVersion", testRenewKeepsVersion},
		{"RenewRefused", testRenewRefused},
		{"PublishWithoutRead", testPublishWithoutRead},
		{"Versions", testVersions},
		{"VersionsOnDemand", testVersionsOnDemand},
		{"Rollback", testRollback},
		{"RollbackRefused", testRollbackRefused},
		{"RollbackBeatsRegeneration", testRollbackBeatsRegeneration},
		{"RollbackToCurrent", testRollbackToCurrent},
		{"Pin", testPin},
		{"PinHolds", testPinHolds},
		{"UnpinOfUnpinned", testUnpinOfUnpinned},
		{"PublishOverPinIsLogged", testPublishOverPinIsLogged},
		{"Withdrawal", testWithdrawal},
		{"Keep", testKeep},
		{"UnchangedVersion", testUnchangedVersion},
		{"ReadSerializable", testReadSerializable},
		{"Changes", testChanges},
		{"ManyChanges", testManyChanges},
		{"PurgePage", testPurgePage},
		{"PurgeMarks", testPurgeMarks},
		{"PurgeRefused", testPurgeRefused},
		{"PurgeDuringRender", testPurgeDuringRender},
		{"PurgeAndRollback", testPurgeAndRollback},
		{"Covering", testCovering},
		{"DeleteMark", testDeleteMark},
		{"Build", testBuild},
		{"Variants", testVariants},
		{"Presence", testPresence},
		{"RenewPin", testRenewPin},
		{"Request", testRequest},
		{"RequestWithoutLease", testRequestWithoutLease},
		{"RequestKeys", testRequestKeys},
		{"RequestFails", testRequestFails},
		{"RequestAnswered", testRequestAnswered},
		{"RequestIsKept", testRequestIsKept},
		{"RequestTakenOver", testRequestTakenOver},
		{"RequestOfReleasedLease", testRequestOfReleasedLease},
		{"BreakLease", testBreakLease},
		{"NamedBodies", testNamedBodies},
		{"BodyKeys", testBodyKeys},
		{"Quarantine", testQuarantine},
		{"QuarantineRefused", testQuarantineRefused},
		{"Outbox", testOutbox},
		{"OutboxTargets", testOutboxTargets},
		{"OutboxEnqueue", testOutboxEnqueue},
		{"OutboxEnqueueMany", testOutboxEnqueueMany},
		{"OutboxRefused", testOutboxRefused},
		{"OutboxFull", testOutboxFull},
		{"OutboxOfAssertions", testOutboxOfAssertions},
		{"OutboxFailures", testOutboxFailures},
		{"OutboxRetryPending", testOutboxRetryPending},
		{"OutboxOrder", testOutboxOrder},
		{"EndedContext", testMetaEndedContext},
		{"RaceForLease", testRaceForLease},
		{"RaceWithExpiry", testRaceWithExpiry},
		{"RaceOfReaders", testRaceOfReaders},
		{"RaceOfRollbacks", testRaceOfRollbacks},
		{"RaceOfChanges", testRaceOfChanges},
		{"RaceOfPurges", testRaceOfPurges},
		{"RaceForRequest", testRaceForRequest},
		{"RaceOfDeliveries", testRaceOfDeliveries},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			open := storage(t)
			// Stores delete rows that expired long ago, so the clock starts near
			// the real time. The fraction of a second reveals rounding.
			clock := NewClock(time.Now().Truncate(time.Second).Add(600 * time.Millisecond))
			test.run(t, &fleet{
				t: t, open: open, clock: clock,
				a: open("node-a", clock.Now), b: open("node-b", clock.Now),
			})
		})
	}
}

// The page of most tests, and the duration of their leases.
const (
	testPK    = "CACHE#5f1c"
	testLease = 30 * time.Second
)

// A fleet is two nodes on one storage and one clock. Its methods fail the test on
// errors.
type fleet struct {
	t     *testing.T
	open  MetaStoreOpener
	clock *Clock
	a, b  store.MetaStore
}

func (f *fleet) read(store store.MetaStore, pk string) store.Record {
	f.t.Helper()
	record, err := store.Read(f.t.Context(), pk)
	if err != nil {
		f.t.Fatalf("Read(%s): %v", pk, err)
	}
	if record.Malformed != nil {
		f.t.Fatalf("Read(%s): malformed: %v", pk, record.Malformed)
	}
	return record
}

// testReadSerializable: it returns what Read returns.
func testReadSerializable(t *testing.T, f *fleet) {
	compare := func(what string) {
		t.Helper()
		want := f.read(f.a, testPK)
		got, err := f.b.ReadSerializable(t.Context(), testPK)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{want.Entry, want.Purges, want.Lock}, []any{got.Entry, got.Purges, got.Lock}, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
			t.Errorf("%s (-Read +ReadSerializable):\n%s", what, diff)
		}
	}
	compare("no rows")
	f.keep(f.a, f.entry("1"))
	f.acquire(f.a, testPK)
	compare("META and LOCK")
	target := store.PurgeTarget{Kind: store.PurgeKey, Value: "example.com/news", PK: testPK}
	if _, err := f.a.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{target}, Hard: true}); err != nil {
		t.Fatal(err)
	}
	compare("and PURGE")
	if _, err := f.b.ReadSerializable(t.Context(), ""); !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("ReadSerializable of no partition: %v, want ErrInvalidKey", err)
	}
}

func (f *fleet) acquire(store store.MetaStore, pk string) store.Lease {
	f.t.Helper()
	l, err := store.Acquire(f.t.Context(), pk, testLease, nil)
	if err != nil {
		f.t.Fatalf("Acquire(%s): %v", pk, err)
	}
	return l
}

// held checks that the lease cannot be acquired, and returns the lock that holds it.
func (f *fleet) held(meta store.MetaStore, pk string) store.Lock {
	f.t.Helper()
	_, err := meta.Acquire(f.t.Context(), pk, testLease, nil)
	held, ok := errors.AsType[*store.HeldError](err)
	if !ok {
		f.t.Fatalf("Acquire(%s) of a held lease: %v, want a *HeldError", pk, err)
	}
	return held.Lock
}

func (f *fleet) refresh(store store.MetaStore, l store.Lease) {
	f.t.Helper()
	if err := store.Refresh(f.t.Context(), l); err != nil {
		f.t.Fatalf("Refresh: %v", err)
	}
}

func (f *fleet) release(store store.MetaStore, l store.Lease) {
	f.t.Helper()
	if err := store.Release(f.t.Context(), l); err != nil {
		f.t.Fatalf("Release: %v", err)
	}
}

func (f *fleet) backOff(store store.MetaStore, l store.Lease, d time.Duration) {
	f.t.Helper()
	if err := store.BackOff(f.t.Context(), l, d); err != nil {
		f.t.Fatalf("BackOff: %v", err)
	}
}

// lost checks that a lease can neither be refreshed nor publish.
func (f *fleet) lost(meta store.MetaStore, l store.Lease) {
	f.t.Helper()
	if err := meta.Refresh(f.t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
		f.t.Fatalf("Refresh of a lost lease: %v, want ErrLeaseLost", err)
	}
	before := f.read(meta, l.PK())
	_, err := meta.Publish(f.t.Context(), l, before, f.entry("refused"), store.PublishOptions{})
	if !errors.Is(err, store.ErrLeaseLost) {
		f.t.Fatalf("Publish with a lost lease: %v, want ErrLeaseLost", err)
	}
	f.same(before, f.read(meta, l.PK()))
}

// publish acquires the lease, reads, and publishes the entry.
func (f *fleet) publish(meta store.MetaStore, pk string, next store.Entry) store.Entry {
	f.t.Helper()
	l := f.acquire(meta, pk)
	got, err := meta.Publish(f.t.Context(), l, f.read(meta, pk), next, store.PublishOptions{})
	if err != nil {
		f.t.Fatalf("Publish(%s): %v", pk, err)
	}
	return got
}

// holds checks the entry that every node reads.
func (f *fleet) holds(pk string, want store.Entry) {
	f.t.Helper()
	for _, store := range []store.MetaStore{f.a, f.b} {
		record := f.read(store, pk)
		if record.Entry == nil {
			f.t.Fatalf("Read(%s): no entry", pk)
		}
		if diff := diffEntries(want, *record.Entry); diff != "" {
			f.t.Fatalf("Read(%s): the entry differs (-want +got):\n%s", pk, diff)
		}
	}
}

// same checks that two reads returned the same entry.
func (f *fleet) same(want, got store.Record) {
	f.t.Helper()
	if diff := cmp.Diff(want.Entry, got.Entry, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		f.t.Fatalf("the entry changed (-before +after):\n%s", diff)
	}
}

// entry returns a typical entry. All its fields derive from id and the clock.
func (f *fleet) entry(id string) store.Entry {
	return entryAt(id, f.clock.Now())
}

func entryAt(id string, now time.Time) store.Entry {
	return store.Entry{
		BodyKey:      "bodies/5f1c/" + id,
		GeneratedAt:  now.Truncate(time.Millisecond),
		Revalidate:   time.Minute,
		ETag:         fmt.Sprintf("%q", id),
		Expires:      now.Add(30 * 24 * time.Hour).Truncate(time.Second),
		GenerationID: id,
		Key:          "example.com/news?page=" + id,
		Route:        "news",
		Status:       http.StatusOK,
		Header:       http.Header{"Content-Type": {"text/html; charset=utf-8"}, "X-Generation": {id}},
		SHA256:       "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Length:       int64(len(id)),
		Tags:         []string{"news", id},
		Stale:        time.Hour,
		PurgeSeq:     7,
		Build:        4,
	}
}

func diffEntries(want, got store.Entry) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{}))
}

// testMetaEmpty: rows that were never written read as zero values.
func testMetaEmpty(t *testing.T, f *fleet) {
	record := f.read(f.a, testPK)
	if record.Entry != nil || record.Lock != nil || record.Purges != (store.PurgeState{}) {
		t.Errorf("Read of nothing: %+v", record)
	}
	sequence, err := f.a.Sequence(t.Context())
	if err != nil || sequence != (store.Sequence{}) {
		t.Errorf("Sequence of nothing: %+v, %v", sequence, err)
	}
}

// testMetaEndedContext: calls with an ended context return an error and change
// nothing.
func testMetaEndedContext(t *testing.T, f *fleet) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.a.Read(ended, testPK); err == nil {
		t.Error("Read with an ended context: no error")
	}
	if _, err := f.a.Acquire(ended, testPK, testLease, nil); err == nil {
		t.Error("Acquire with an ended context: no error")
	}
	l := f.acquire(f.b, testPK)
	read := f.read(f.b, testPK)
	if _, err := f.b.Publish(ended, l, read, f.entry("1"), store.PublishOptions{}); err == nil {
		t.Error("Publish with an ended context: no error")
	}
	if record := f.read(f.a, testPK); record.Entry != nil {
		t.Errorf("Publish with an ended context published %+v", record.Entry)
	}
}
