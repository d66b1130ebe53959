package isrtest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/store"
)

// pageTarget is the target of the page of most tests.
var pageTarget = store.PurgeTarget{Kind: store.PurgeKey, Value: "example.com/news", PK: testPK}

func tagTarget(tenant, tag string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTag, Tenant: tenant, Value: tag}
}

func (f *fleet) purge(meta store.MetaStore, hard bool, targets ...store.PurgeTarget) store.Receipt {
	f.t.Helper()
	receipt, err := meta.Purge(f.t.Context(), store.Purge{Targets: targets, Hard: hard})
	if err != nil {
		f.t.Fatalf("Purge(%v): %v", targets, err)
	}
	if receipt.Seq < 1 || receipt.WriteUnits < 0 {
		f.t.Errorf("Purge(%v): %+v", targets, receipt)
	}
	return receipt
}

// marks returns all marks, by their targets.
func (f *fleet) marks() map[store.PurgeTarget]store.Mark {
	f.t.Helper()
	marks := make(map[store.PurgeTarget]store.Mark)
	for m, err := range f.b.Marks(f.t.Context()) {
		if err != nil {
			f.t.Fatalf("Marks: %v", err)
		}
		if _, twice := marks[m.Target]; twice {
			f.t.Errorf("Marks yielded %s twice", m.Target)
		}
		marks[m.Target] = m
	}
	return marks
}

func (f *fleet) covering(k store.Key, tags ...string) store.PurgeState {
	f.t.Helper()
	state, err := f.b.Covering(f.t.Context(), k, tags)
	if err != nil {
		f.t.Fatalf("Covering(%s): %v", k, err)
	}
	return state
}

// testPurgePage: the purge of a page is in its record, and in the log.
func testPurgePage(t *testing.T, f *fleet) {
	entry := f.entry("1")
	entry.PurgeSeq = 0
	f.publish(f.a, testPK, entry)
	at := f.clock.Now().Truncate(time.Second).UTC()
	soft := f.purge(f.a, false, pageTarget)
	lifetime := f.read(f.b, testPK).Purges.MarkLifetime // zero: it is the lifetime of the sequence
	if diff := cmp.Diff(store.PurgeState{Seq: soft.Seq, At: at, MarkLifetime: lifetime}, f.read(f.b, testPK).Purges); diff != "" {
		t.Errorf("after a soft purge (-want +got):\n%s", diff)
	}
	f.clock.Advance(time.Minute)
	hard := f.purge(f.b, true, pageTarget)
	f.clock.Advance(time.Minute)
	again := f.purge(f.a, false, pageTarget, pageTarget)
	want := store.PurgeState{Seq: again.Seq, HardSeq: hard.Seq, At: at.Add(2 * time.Minute), MarkLifetime: lifetime}
	if diff := cmp.Diff(want, f.read(f.a, testPK).Purges); diff != "" {
		t.Errorf("after a soft, a hard and a soft purge (-want +got):\n%s", diff)
	}
	if soft.Seq >= hard.Seq || hard.Seq >= again.Seq || f.sequence() != again.Seq {
		t.Errorf("the sequences of three purges: %d, %d, %d of %d", soft.Seq, hard.Seq, again.Seq, f.sequence())
	}
	reload := []store.Key{{Text: pageTarget.Value}}
	f.wantChanges(store.Change{Seq: soft.Seq, Reload: reload}, store.Change{Seq: hard.Seq, Reload: reload}, store.Change{Seq: again.Seq, Reload: reload})
	if seq, err := f.a.Sequence(t.Context()); err != nil || seq.MarkLifetime < store.MinMarkLifetime {
		t.Errorf("Sequence after purges: %+v, %v", seq, err)
	}
}

// testPurgeMarks: a purge of all kinds is one change. Its marks are listed, in the log, and
// cover the pages of their targets.
func testPurgeMarks(t *testing.T, f *fleet) {
	targets := []store.PurgeTarget{
		tagTarget("", "news"), tagTarget("t1", "Größe 9"),
		{Kind: store.PurgePrefix, Value: "example.com/blog/"},
		{Kind: store.PurgeTenant, Tenant: "t1"},
		{Kind: store.PurgeSite},
	}
	if len(f.marks()) != 0 {
		t.Errorf("the marks of nothing: %v", f.marks())
	}
	for round := range int64(3) {
		at := f.clock.Now().Truncate(time.Second).UTC()
		receipt, err := f.a.Purge(t.Context(), store.Purge{Targets: targets, Hard: round == 1, Confirm: round == 2})
		if err != nil || receipt.Seq != round+1 {
			t.Fatalf("purge %d: %+v, %v", round, receipt, err)
		}
		change := store.Change{Seq: receipt.Seq, Confirm: round == 2}
		listed := f.marks()
		for _, target := range targets {
			want := store.Mark{Target: target, Seq: receipt.Seq, At: at}
			if round == 1 {
				want.HardSeq = receipt.Seq
			}
			change.Marks = append(change.Marks, want)
			if round == 2 {
				want.HardSeq = 2 // stays, but is not part of the change
			}
			if diff := cmp.Diff(want, listed[target]); diff != "" {
				t.Errorf("round %d: the mark of %s (-want +got):\n%s", round, target, diff)
			}
		}
		if diff := cmp.Diff([]store.Change{change}, f.changes(round)); diff != "" || len(listed) != len(targets) {
			t.Errorf("round %d: %d marks; the log (-want +got):\n%s", round, len(listed), diff)
		}
		f.clock.Advance(time.Minute)
	}
}

// testCovering: the merged state of the marks that cover a page.
func testCovering(t *testing.T, f *fleet) {
	page := store.Key{Text: "example.com/blog/a"}
	if got := f.covering(page, "a", "b"); got != (store.PurgeState{}) {
		t.Errorf("Covering without purges: %+v", got)
	}
	f.purge(f.a, true, tagTarget("", "b"), tagTarget("t1", "a"))
	f.purge(f.a, false, store.PurgeTarget{Kind: store.PurgePrefix, Value: "example.com/blog/"}, tagTarget("", "c"))
	f.purge(f.a, false, store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "t1"})
	for name, test := range map[string]struct {
		key       store.Key
		tags      []string
		seq, hard int64
	}{
		"tag and prefix":           {page, []string{"a", "b"}, 2, 1},
		"prefix":                   {page, nil, 2, 0},
		"tag":                      {store.Key{Text: "example.com/"}, []string{"b"}, 1, 1},
		"none":                     {store.Key{Text: "example.com/"}, []string{"a"}, 0, 0},
		"tag of a tenant":          {store.Key{Tenant: "t1", Text: "example.com/"}, []string{"a"}, 3, 1},
		"tenant":                   {store.Key{Tenant: "t1", Text: page.Text}, nil, 3, 0},
		"another tenant":           {store.Key{Tenant: "t2", Text: page.Text}, []string{"a", "b"}, 0, 0},
		"another tenant, by name":  {store.Key{Tenant: "t11", Text: page.Text}, nil, 0, 0},
		"more tags than one fetch": {page, append(manyTags(240), "b"), 2, 1},
	} {
		if got := f.covering(test.key, test.tags...); got.Seq != test.seq || got.HardSeq != test.hard || got.MarkLifetime == 0 {
			t.Errorf("%s: %+v, want the sequences %d and %d", name, got, test.seq, test.hard)
		}
	}
	f.purge(f.b, true, store.PurgeTarget{Kind: store.PurgeSite})
	for _, tenant := range []string{"", "t1", "t2"} {
		if got := f.covering(store.Key{Tenant: tenant, Text: "example.org/"}); got.Seq != 4 || got.HardSeq != 4 {
			t.Errorf("tenant %q after a purge of the site: %+v", tenant, got)
		}
	}
	if _, err := f.a.Covering(t.Context(), store.Key{}, nil); !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("Covering of an empty key: %v", err)
	}
}

func manyTags(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("tag-%d", i)
	}
	return tags
}

// testPurgeRefused: bad purges write nothing.
func testPurgeRefused(t *testing.T, f *fleet) {
	for name, targets := range map[string][]store.PurgeTarget{
		"none":       {},
		"one is bad": {tagTarget("", "news"), {Kind: store.PurgeTenant}},
		"too many":   slices.Repeat([]store.PurgeTarget{{Kind: store.PurgeSite}}, store.MaxPurgeTargets+1),
		"no pk":      {{Kind: store.PurgeKey, Value: "example.com/"}},
	} {
		if _, err := f.a.Purge(t.Context(), store.Purge{Targets: targets}); !errors.Is(err, store.ErrInvalidInput) && !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.sequence() != 0 || len(f.marks()) != 0 {
		t.Errorf("refused purges left the sequence %d and the marks %v", f.sequence(), f.marks())
	}
}

// testPurgeDuringRender: a generation whose rendering began before a purge is covered by it,
// whichever of publish and purge comes first.
func testPurgeDuringRender(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	read := f.read(f.a, testPK)
	next := f.entry("1")
	next.PurgeSeq = f.sequence()
	f.purge(f.b, true, pageTarget, tagTarget("", "news"))
	if _, err := f.a.Publish(t.Context(), l, read, next, store.PublishOptions{}); err != nil {
		t.Fatalf("Publish after a purge: %v", err)
	}
	record := f.read(f.b, testPK)
	for name, cover := range map[string]store.PurgeState{"page": record.Purges, "tag": f.covering(store.Key{Text: next.Key}, next.Tags...)} {
		if state := store.Freshness(record.Entry, cover, f.clock.Now()); state != store.Purged {
			t.Errorf("by the purge of the %s the generation is %v", name, state)
		}
	}
}

// testPurgeAndRollback: a purge between a rollback's read of SEQ and its commit covers the
// generation that returns, because that has the sequence which was read. Here the reads
// and the purge are concurrent.
func testPurgeAndRollback(t *testing.T, f *fleet) {
	one := f.entry("1")
	one.PurgeSeq = 0
	f.keep(f.a, one)
	two := f.entry("2")
	two.PurgeSeq = 0
	f.keep(f.a, two)
	var group sync.WaitGroup
	var receipt store.Receipt
	var purged, rolledBack error
	read := f.read(f.a, testPK)
	group.Go(func() {
		receipt, purged = f.a.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{pageTarget, tagTarget("t1", "news")}, Hard: true})
	})
	group.Go(func() { _, rolledBack = f.a.Rollback(t.Context(), read, "1", f.assertion()) })
	group.Wait()
	if purged != nil || rolledBack != nil && !errors.Is(rolledBack, store.ErrPurged) {
		t.Fatalf("purge: %v; rollback: %v", purged, rolledBack)
	}
	record := f.read(f.b, testPK)
	if record.Entry.PurgeSeq >= receipt.Seq {
		t.Errorf("the generation has the sequence %d, and the purge %d", record.Entry.PurgeSeq, receipt.Seq)
	}
	if state := store.Freshness(record.Entry, record.Purges, f.clock.Now()); state != store.Purged {
		t.Errorf("after the purge the page is %v", state)
	}
}

// testDeleteMark: a mark is deleted unless it was purged again.
func testDeleteMark(t *testing.T, f *fleet) {
	news, sport := tagTarget("t1", "news"), tagTarget("", "sport")
	f.purge(f.a, true, news, sport, store.PurgeTarget{Kind: store.PurgeSite}, store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "t1"})
	before := f.marks()
	f.purge(f.a, false, sport)
	for _, m := range before {
		for range 2 { // the second time it is missing, or was changed
			if err := f.b.DeleteMark(t.Context(), m); err != nil {
				t.Errorf("DeleteMark(%s): %v", m.Target, err)
			}
		}
	}
	left := f.marks()
	if len(left) != 1 || left[sport].Seq != 2 || left[sport].HardSeq != 1 {
		t.Errorf("the marks that are left: %v", left)
	}
}

// testBuild: each new build advances the sequence; a build that is current does not.
func testBuild(t *testing.T, f *fleet) {
	build := func(meta store.MetaStore, id string, want int64) {
		t.Helper()
		if seq, err := meta.Build(t.Context(), id); err != nil || seq != want {
			t.Errorf("Build(%q) = %d, %v, want %d", id, seq, err, want)
		}
	}
	build(f.a, "one", 1)
	build(f.b, "one", 1)
	f.purge(f.a, false, tagTarget("", "news"))
	build(f.b, "two", 3)
	build(f.a, "two", 3)
	build(f.a, "one", 4)
	for _, bad := range []string{"", "bäu", "a\n", fmt.Sprintf("%257d", 1)} {
		if _, err := f.a.Build(t.Context(), bad); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("Build(%.10q): %v", bad, err)
		}
	}
	seqs := make([]int64, 8)
	var group sync.WaitGroup
	for i := range seqs {
		group.Go(func() {
			var err error
			if seqs[i], err = []store.MetaStore{f.a, f.b}[i%2].Build(t.Context(), "three"); err != nil {
				t.Errorf("concurrent Build: %v", err)
			}
		})
	}
	group.Wait()
	if len(slices.Compact(seqs)) != 1 {
		t.Errorf("one build has the sequences %v", seqs)
	}
}

// testPresence: processes that announce themselves are listed until they withdraw, or are
// gone.
func testPresence(t *testing.T, f *fleet) {
	now := f.clock.Now().Truncate(time.Second).UTC()
	peers := map[string]netip.AddrPort{"b": netip.MustParseAddrPort("10.0.0.5:7946"), "c": netip.MustParseAddrPort("[fd00::5]:7946")}
	node := func(id string, applied int64, until time.Duration) store.Node {
		return store.Node{ID: id, Name: "host of " + id, Release: "v1.2.3", Config: "sha " + id, Applied: applied, Since: now.Add(-time.Hour), SeenAt: now, Until: now.Add(until), Peer: peers[id]}
	}
	want := func(nodes ...store.Node) {
		t.Helper()
		got, err := f.b.Nodes(t.Context())
		if diff := cmp.Diff(nodes, got, cmpopts.EquateComparable(netip.AddrPort{})); err != nil || diff != "" {
			t.Errorf("Nodes: %v (-want +got):\n%s", err, diff)
		}
	}
	announce := func(n store.Node) {
		t.Helper()
		if err := f.a.Announce(t.Context(), n); err != nil {
			t.Errorf("Announce(%+v): %v", n, err)
		}
	}
	want()
	announce(node("b", 4, time.Minute))
	announce(node("a.1_x-Y", 3, time.Hour))
	announce(node("c", 5, 0))
	want(node("a.1_x-Y", 3, time.Hour), node("b", 4, time.Minute))
	announce(node("b", 9, 2*time.Minute))
	f.clock.Advance(90 * time.Second)
	want(node("a.1_x-Y", 3, time.Hour), node("b", 9, 2*time.Minute))
	f.clock.Advance(time.Minute)
	want(node("a.1_x-Y", 3, time.Hour))
	for range 2 {
		if err := f.b.Withdraw(t.Context(), "a.1_x-Y"); err != nil {
			t.Errorf("Withdraw: %v", err)
		}
	}
	want()
	for name, change := range map[string]func(*store.Node){
		"no id":        func(n *store.Node) { n.ID = "" },
		"bad id":       func(n *store.Node) { n.ID = "a#b" },
		"long name":    func(n *store.Node) { n.Name = fmt.Sprintf("%257d", 1) },
		"long release": func(n *store.Node) { n.Release = fmt.Sprintf("%65d", 1) },
		"bad config":   func(n *store.Node) { n.Config = "a\nb" },
		"negative":     func(n *store.Node) { n.Applied = -1 },
		"no times":     func(n *store.Node) { n.Until = time.Time{} },
		"far too late": func(n *store.Node) { n.Until = now.AddDate(9000, 0, 0) },
	} {
		bad := node("x", 1, time.Minute)
		change(&bad)
		if err := f.a.Announce(t.Context(), bad); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("Announce with %s: %v", name, err)
		}
	}
	if err := f.a.Withdraw(t.Context(), "a b"); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("Withdraw of a bad id: %v", err)
	}
}

// testRenewPin: renewing a pin moves what the lifetime of marks is counted from, unless a
// purge covers the entry.
func testRenewPin(t *testing.T, f *fleet) {
	entry := f.entry("1")
	entry.PurgeSeq, entry.PinnedUntil, entry.Expires = 0, store.Forever(), time.Time{}
	entry = f.keep(f.a, entry)
	k := store.Key{Tenant: "t1", Text: "example.com/news"}
	f.purge(f.a, true, tagTarget("t1", "sport"))
	f.clock.Advance(50 * 24 * time.Hour)
	at := f.clock.Now().Truncate(time.Second).UTC()
	renewed, err := f.b.RenewPin(t.Context(), f.read(f.b, testPK), k, at)
	if err != nil {
		t.Fatalf("RenewPin: %v", err)
	}
	entry.Version, entry.PurgeSeq, entry.AssertedAt = renewed.Version, 1, at
	f.holds(testPK, entry)
	if diff := diffEntries(entry, renewed); diff != "" {
		t.Errorf("RenewPin returned another entry (-want +got):\n%s", diff)
	}
	var pinned []string
	for pk, err := range f.a.PinnedForever(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		pinned = append(pinned, pk)
	}
	if !slices.Equal(pinned, []string{testPK}) {
		t.Errorf("PinnedForever: %q", pinned)
	}
	read := f.read(f.a, testPK)
	f.purge(f.a, false, tagTarget("t1", "news"))
	if _, err := f.a.RenewPin(t.Context(), read, k, at); !errors.Is(err, store.ErrPurged) {
		t.Errorf("RenewPin after a soft purge: %v, want ErrPurged", err)
	}
	if _, err := f.a.Pin(t.Context(), read, store.Assertion{Key: k, At: at}); err != nil { // an unpin
		t.Fatal(err)
	}
	if _, err := f.a.RenewPin(t.Context(), f.read(f.a, testPK), k, at); !errors.Is(err, store.ErrNoVersion) {
		t.Errorf("RenewPin of an entry that is not pinned: %v, want ErrNoVersion", err)
	}
	f.clock.Advance(90 * 24 * time.Hour)
	if _, err := f.a.Pin(t.Context(), f.read(f.a, testPK), store.Assertion{Key: k, At: f.clock.Now(), PinnedUntil: store.Forever()}); !errors.Is(err, store.ErrPurged) {
		t.Errorf("Pin of an entry that is older than the marks: %v, want ErrPurged", err)
	}
}

// testRaceOfPurges: concurrent purges of one tag by several processes get distinct
// sequences, or share one within a process; the mark has the largest of all, and of the
// hard ones.
func testRaceOfPurges(t *testing.T, f *fleet) {
	const purges = 24
	receipts := make([]store.Receipt, purges)
	var group sync.WaitGroup
	for i := range purges {
		group.Go(func() {
			var err error
			p := store.Purge{Targets: []store.PurgeTarget{tagTarget("", "news"), tagTarget("", fmt.Sprint(i))}, Hard: i%3 == 0}
			if receipts[i], err = []store.MetaStore{f.a, f.b}[i%2].Purge(t.Context(), p); err != nil {
				t.Errorf("purge %d: %v", i, err)
			}
		})
	}
	group.Wait()
	var newest, hard int64
	marks := f.marks()
	for i, r := range receipts {
		newest = max(newest, r.Seq)
		if m := marks[tagTarget("", fmt.Sprint(i))]; m.Seq != r.Seq {
			t.Errorf("purge %d has the receipt %d, its mark %+v", i, r.Seq, m)
		}
		if i%3 == 0 {
			hard = max(hard, r.Seq)
		}
	}
	if m := marks[tagTarget("", "news")]; m.Seq != newest || m.HardSeq != hard || newest != f.sequence() {
		t.Errorf("the mark is %+v, want the sequences %d and %d; SEQ is %d", m, newest, hard, f.sequence())
	}
}
