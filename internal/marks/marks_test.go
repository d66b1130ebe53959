package marks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

var markedAt = time.Unix(1e9, 0)

func markOf(seq, hard int64, target store.PurgeTarget) store.Mark {
	return store.Mark{Target: target, Seq: seq, HardSeq: hard, At: markedAt.Add(time.Duration(seq) * time.Second)}
}

func tag(tenant, value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTag, Tenant: tenant, Value: value}
}

func prefix(value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgePrefix, Value: value}
}

// A storedMarks yields marks, and then an error, if it has one.
type storedMarks struct {
	store.PurgeStore
	marks []store.Mark
	err   error
}

func (s storedMarks) Marks(context.Context) iter.Seq2[store.Mark, error] {
	return func(yield func(store.Mark, error) bool) {
		for _, m := range s.marks {
			if !yield(m, nil) {
				return
			}
		}
		if s.err != nil {
			yield(store.Mark{}, s.err)
		}
	}
}

// The table finds the marks that cover a page: it agrees with [store.PurgeTarget.Covers], by
// which marks are judged one by one, in whatever order they are added, and whether they are
// absorbed or not.
func TestMarksCoverWhatTheirTargetsSelect(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	kinds := []store.PurgeKind{store.PurgeTag, store.PurgeTag, store.PurgePrefix, store.PurgePrefix, store.PurgeTenant, store.PurgeSite, "of-a-newer-version"}
	text := func() string {
		return one("h", "h/", "h/a", "h/a/", "h/a/b", "h/a#", "h/a#x=1", "h/a#x=12", "i/", "i/a")
	}
	for range 2000 {
		var marks []store.Mark
		for seq := range random.Int64N(12) {
			target := store.PurgeTarget{Kind: kinds[random.IntN(len(kinds))], Tenant: one("", "t", "u")}
			switch target.Kind {
			case store.PurgeTag:
				target.Value = one("x", "y", "z")
			case store.PurgePrefix:
				target.Value = text()
			case store.PurgeSite:
				target.Tenant = ""
			}
			m := markOf(seq+1, random.Int64N(2)*(seq+1), target)
			if random.IntN(4) == 0 {
				m.ExpireSeq, m.ExpireAt = m.Seq, markedAt.Add(time.Duration(random.IntN(20))*time.Second)
			}
			marks = append(marks, m)
		}
		random.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
		now := markedAt.Add(10 * time.Second)
		var table Table
		table.Apply(now, marks...)
		k, tags := store.Key{Tenant: one("", "t"), Text: text()}, []string{one("x", "y"), "other"}
		var want store.PurgeState
		newest := make(map[store.PurgeTarget]int64) // a later ExpireSeq of a target replaces an earlier one
		for _, m := range marks {
			newest[m.Target] = max(newest[m.Target], m.ExpireSeq)
		}
		for _, m := range marks {
			if !m.Target.Covers(k, tags) {
				continue
			}
			if m.ExpireSeq < newest[m.Target] && m.ExpireAt.After(now) {
				m.ExpireSeq = 0
			}
			want = want.Merge(m.State(now))
		}
		if got := table.Covering(k, tags, now); got.Seq != want.Seq || got.HardSeq != want.HardSeq || !got.At.Equal(want.At) {
			t.Fatalf("%v with tags %v: got %+v, want %+v, of %+v", k, tags, got, want, marks)
		}
	}
}

// A mark of the site, or of a tenant, replaces the older marks that it includes.
func TestMarksAreAbsorbed(t *testing.T) {
	count := func(table *Table) (n int) {
		table.set.newerThan(0, func(store.PurgeTarget, mark) { n++ })
		return n
	}
	var table Table
	for i := range int64(100) {
		table.Apply(markedAt, markOf(2*i+1, 0, tag("t", fmt.Sprint(i))), markOf(2*i+2, 0, prefix(fmt.Sprint("h/", i))))
	}
	table.Apply(markedAt, markOf(201, 201, tag("", "hard")))
	table.Apply(markedAt, markOf(300, 0, store.PurgeTarget{Kind: store.PurgeTenant, Tenant: "t"}))
	if n := count(&table); n != 102 {
		t.Errorf("%d marks after a purge of the tenant, want its own, 100 prefixes and one tag", n)
	}
	table.Apply(markedAt, markOf(301, 0, store.PurgeTarget{Kind: store.PurgeSite}))
	if n := count(&table); n != 2 {
		t.Errorf("%d marks after a soft purge of everything, want its own mark and the mark of a hard purge", n)
	}
	table.Apply(markedAt, markOf(302, 302, store.PurgeTarget{Kind: store.PurgeSite}), markOf(50, 0, tag("", "late")))
	if n := count(&table); n != 1 || len(table.set.tenants) != 0 {
		t.Errorf("%d marks of %d tenants after a hard purge of everything, want one", n, len(table.set.tenants))
	}
}

// A reload replaces all marks: one that was deleted disappears, one that was made since SEQ was
// read stays, and nothing changes if the store fails.
func TestMarksAreReloaded(t *testing.T) {
	k := store.Key{Text: "h/"}
	var table Table
	table.Apply(markedAt, markOf(1, 0, tag("", "deleted")), markOf(5, 5, tag("", "own")))
	now := func() time.Time { return markedAt }
	broken := storedMarks{marks: []store.Mark{markOf(3, 0, tag("", "stored"))}, err: errors.New("throttled")}
	if err := table.Load(t.Context(), broken, nil, 4, now); !errors.Is(err, broken.err) {
		t.Fatal(err)
	}
	version := table.version.Load()
	if seq := table.Covering(k, []string{"deleted", "stored"}, markedAt).Seq; seq != 1 {
		t.Errorf("sequence %d after a reload that failed", seq)
	}
	if err := table.Load(t.Context(), storedMarks{marks: broken.marks}, nil, 4, now); err != nil {
		t.Fatal(err)
	}
	if table.version.Load() == version {
		t.Error("pages would keep what they had computed")
	}
	for tag, want := range map[string]int64{"deleted": 0, "stored": 3, "own": 5} {
		if seq := table.Covering(k, []string{tag}, markedAt).Seq; seq != want {
			t.Errorf("tag %s: sequence %d, want %d", tag, seq, want)
		}
	}
	var none Table
	if err := none.Load(t.Context(), storedMarks{}, nil, 4, now); err != nil || none.version.Load() != 0 {
		t.Errorf("%v; without marks, hits look up none", err)
	}
}

// A page keeps its state while the table does not change, except that a mark expires.
func TestMarkExpires(t *testing.T) {
	var table Table
	m := markOf(3, 0, tag("", "x"))
	m.ExpireSeq, m.ExpireAt = 3, markedAt.Add(time.Minute)
	table.Apply(markedAt, m)
	var memo Memo
	at := func(d time.Duration) store.PurgeState {
		return table.Recall(&memo, store.Key{Text: "h/"}, []string{"x"}, markedAt.Add(d))
	}
	if s := at(0); s.Seq != 3 || s.HardSeq != 0 {
		t.Errorf("before it expires: %+v", s)
	}
	kept := memo.last.Load()
	if at(time.Minute - 1); memo.last.Load() != kept {
		t.Error("the state was computed again")
	}
	if s := at(time.Minute); s.HardSeq != 3 {
		t.Errorf("once it has expired: %+v", s)
	}
	table.Apply(markedAt.Add(time.Minute), markOf(4, 0, tag("", "other")))
	if s := at(time.Minute); s.HardSeq != 3 || s.Seq != 3 {
		t.Errorf("after another change: %+v", s)
	}
}

// Marks whose lifetime has ended are removed from the memory of a process that runs for longer.
func TestMarksEnd(t *testing.T) {
	var table Table
	const lifetime = 90 * 24 * time.Hour
	table.Note(store.Sequence{MarkLifetime: lifetime})
	table.Apply(markedAt, markOf(1, 0, tag("", "old")), markOf(2, 0, prefix("h/old")))
	later := markOf(3, 0, tag("", "new"))
	later.At = markedAt.Add(lifetime)
	table.Apply(later.At, later)
	left := 0
	table.set.newerThan(0, func(store.PurgeTarget, mark) { left++ })
	if left != 3 {
		t.Errorf("%d marks within their lifetime, want 3", left)
	}
	later.Seq, later.At, later.Target = 4, markedAt.Add(lifetime+sweepEvery), tag("", "newer")
	table.Apply(later.At, later)
	left = 0
	table.set.newerThan(0, func(store.PurgeTarget, mark) { left++ })
	if left != 2 {
		t.Errorf("%d marks after their lifetime, want 2", left)
	}
}
