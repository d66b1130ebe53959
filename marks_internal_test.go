package isr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

var markedAt = time.Unix(1e9, 0)

func markOf(seq, hard int64, target store.PurgeTarget) store.Mark {
	return store.Mark{Target: target, Seq: seq, HardSeq: hard, At: markedAt.Add(time.Duration(seq) * time.Second)}
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
		var table markTable
		table.apply(now, marks...)
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
		if got := table.covering(k, tags, now); got.Seq != want.Seq || got.HardSeq != want.HardSeq || !got.At.Equal(want.At) {
			t.Fatalf("%v with tags %v: got %+v, want %+v, of %+v", k, tags, got, want, marks)
		}
	}
}

// A mark of the site, or of a tenant, replaces the older marks that it includes.
func TestMarksAreAbsorbed(t *testing.T) {
	count := func(table *markTable) (n int) {
		table.set.newerThan(0, func(store.PurgeTarget, mark) { n++ })
		return n
	}
	var table markTable
	for i := range int64(100) {
		table.apply(markedAt, markOf(2*i+1, 0, PurgeTag("t", fmt.Sprint(i))), markOf(2*i+2, 0, PurgePrefix("", fmt.Sprint("h/", i))))
	}
	table.apply(markedAt, markOf(201, 201, PurgeTag("", "hard")))
	table.apply(markedAt, markOf(300, 0, PurgeTenant("t")))
	if n := count(&table); n != 102 {
		t.Errorf("%d marks after a purge of the tenant, want its own, 100 prefixes and one tag", n)
	}
	table.apply(markedAt, markOf(301, 0, PurgeSite()))
	if n := count(&table); n != 2 {
		t.Errorf("%d marks after a soft purge of everything, want its own and that of a hard purge", n)
	}
	table.apply(markedAt, markOf(302, 302, PurgeSite()), markOf(50, 0, PurgeTag("", "late")))
	if n := count(&table); n != 1 || len(table.set.tenants) != 0 {
		t.Errorf("%d marks of %d tenants after a hard purge of everything, want one", n, len(table.set.tenants))
	}
}

// A reload replaces all marks: one that was deleted disappears, one that was made since SEQ was
// read stays, and nothing changes if the store fails.
func TestMarksAreReloaded(t *testing.T) {
	k := store.Key{Text: "h/"}
	var table markTable
	table.apply(markedAt, markOf(1, 0, PurgeTag("", "deleted")), markOf(5, 5, PurgeTag("", "own")))
	now := func() time.Time { return markedAt }
	broken := storedMarks{marks: []store.Mark{markOf(3, 0, PurgeTag("", "stored"))}, err: errors.New("throttled")}
	if err := table.load(t.Context(), broken, 4, now); !errors.Is(err, broken.err) {
		t.Fatal(err)
	}
	version := table.version.Load()
	if seq := table.covering(k, []string{"deleted", "stored"}, markedAt).Seq; seq != 1 {
		t.Errorf("sequence %d after a reload that failed", seq)
	}
	if err := table.load(t.Context(), storedMarks{marks: broken.marks}, 4, now); err != nil {
		t.Fatal(err)
	}
	if table.version.Load() == version {
		t.Error("pages would keep what they had computed")
	}
	for tag, want := range map[string]int64{"deleted": 0, "stored": 3, "own": 5} {
		if seq := table.covering(k, []string{tag}, markedAt).Seq; seq != want {
			t.Errorf("tag %s: sequence %d, want %d", tag, seq, want)
		}
	}
	var none markTable
	if err := none.load(t.Context(), storedMarks{}, 4, now); err != nil || none.version.Load() != 0 {
		t.Errorf("%v; without marks, hits look up none", err)
	}
}

// A page keeps its state while the table does not change, except that a mark expires.
func TestMarkExpires(t *testing.T) {
	var table markTable
	m := markOf(3, 0, PurgeTag("", "x"))
	m.ExpireSeq, m.ExpireAt = 3, markedAt.Add(time.Minute)
	table.apply(markedAt, m)
	p := newPage(store.Key{Text: "h/"}, store.Entry{Tags: []string{"x"}}, store.PurgeState{}, reading{}, nil, new(presentation))
	if s := table.of(p, markedAt); s.Seq != 3 || s.HardSeq != 0 {
		t.Errorf("before it expires: %+v", s)
	}
	kept := p.marked.Load()
	if table.of(p, markedAt.Add(time.Minute-1)); p.marked.Load() != kept {
		t.Error("the state was computed again")
	}
	if s := table.of(p, markedAt.Add(time.Minute)); s.HardSeq != 3 {
		t.Errorf("once it has expired: %+v", s)
	}
	table.apply(markedAt.Add(time.Minute), markOf(4, 0, PurgeTag("", "other")))
	if s := table.of(p, markedAt.Add(time.Minute)); s.HardSeq != 3 || s.Seq != 3 {
		t.Errorf("after another change: %+v", s)
	}
}

// Marks whose lifetime has ended are removed from the memory of a process that runs for longer.
func TestMarksEnd(t *testing.T) {
	var table markTable
	const lifetime = 90 * 24 * time.Hour
	table.note(store.Sequence{MarkLifetime: lifetime})
	table.apply(markedAt, markOf(1, 0, PurgeTag("", "old")), markOf(2, 0, PurgePrefix("", "h/old")))
	later := markOf(3, 0, PurgeTag("", "new"))
	later.At = markedAt.Add(lifetime)
	table.apply(later.At, later)
	left := 0
	table.set.newerThan(0, func(store.PurgeTarget, mark) { left++ })
	if left != 3 {
		t.Errorf("%d marks within their lifetime, want 3", left)
	}
	later.Seq, later.At, later.Target = 4, markedAt.Add(lifetime+sweepEvery), PurgeTag("", "newer")
	table.apply(later.At, later)
	left = 0
	table.set.newerThan(0, func(store.PurgeTarget, mark) { left++ })
	if left != 2 {
		t.Errorf("%d marks after their lifetime, want 2", left)
	}
}

// A poll costs one unit, and half a unit for each 4 KB of rows. The interval rises sooner
// with that than it falls.
func TestPollsAdaptToWhatTheyConsume(t *testing.T) {
	c, err := New(nil, nil, Config{Poll: -1})
	if err != nil {
		t.Fatal(err)
	}
	c.cfg.Poll = DefaultPoll
	c.follower.setNodes(1080) // 500 ms at one unit
	rows := make([]store.Change, 100)
	for i := range rows {
		rows[i] = store.Change{Seq: int64(i), Marks: []store.Mark{{Target: PurgeTag("", "product-1234")}}}
	}
	polls := func(rows []store.Change) (n int) { // until the interval is within a tenth of what it will be
		for goal := 1000.0 + 500*math.Ceil(132*float64(len(rows))/4096); ; n++ {
			if got := float64(c.follower.every()) / float64(500*time.Microsecond); math.Abs(got-goal) < 0.1*goal {
				return n
			} else if n > 1000 {
				t.Fatalf("%d rows: %.0f milliunits each, want %.0f", len(rows), got, goal)
			}
			c.follower.consumed(rows)
		}
	}
	rise, fall := polls(rows), polls(nil)
	if rise > 10 || fall < 3*rise || fall > 60 {
		t.Errorf("%d polls until the interval has risen, %d until it has fallen", rise, fall)
	}
}

// A large fleet reads the log less often, and a node in it is late accordingly later.
func TestPollsOfALargeFleet(t *testing.T) {
	c, err := New(nil, nil, Config{Poll: -1})
	if err != nil {
		t.Fatal(err)
	}
	c.cfg.Poll = DefaultPoll
	for nodes, want := range map[int][2]time.Duration{
		1: {DefaultPoll, 2 * time.Second}, 540: {DefaultPoll, 2 * time.Second},
		1080: {500 * time.Millisecond, 2 * time.Second}, 20_000: {5 * time.Second, 20 * time.Second},
	} {
		c.follower.setNodes(nodes)
		if got := [2]time.Duration{c.follower.every(), c.StalenessBound()}; got != want {
			t.Errorf("%d nodes: interval and bound %v, want %v", nodes, got, want)
		}
		for range 20 {
			if p := c.follower.pause(); p > want[0] || p < want[0]*4/5 {
				t.Errorf("%d nodes: a pause of %v", nodes, p)
			}
		}
	}
}
