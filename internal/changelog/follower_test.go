package changelog

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/marks"
	"github.com/facetheory/isr/store"
)

const poll = 250 * time.Millisecond

// A poll costs one unit, and half a unit for each 4 KB of rows. The interval rises sooner
// with that than it falls.
func TestPollsAdaptToWhatTheyConsume(t *testing.T) {
	f := New(t.Context(), Options{Poll: poll, Below: rand.Uint64N})
	f.SetNodes(1080) // 500 ms at one unit
	rows := make([]store.Change, 100)
	for i := range rows {
		rows[i] = store.Change{Seq: int64(i), Marks: []store.Mark{{Target: store.PurgeTarget{Kind: store.PurgeTag, Value: "product-1234"}}}}
	}
	polls := func(rows []store.Change) (n int) { // until the interval is within a tenth of what it will be
		for goal := 1000.0 + 500*math.Ceil(132*float64(len(rows))/4096); ; n++ {
			if got := float64(f.Every()) / float64(500*time.Microsecond); math.Abs(got-goal) < 0.1*goal {
				return n
			} else if n > 1000 {
				t.Fatalf("%d rows: %.0f milliunits each, want %.0f", len(rows), got, goal)
			}
			f.consumed(rows)
		}
	}
	rise, fall := polls(rows), polls(nil)
	if rise > 10 || fall < 3*rise || fall > 60 {
		t.Errorf("%d polls until the interval has risen, %d until it has fallen", rise, fall)
	}
}

// A large fleet reads the log less often, and a node in it is late accordingly later.
func TestPollsOfALargeFleet(t *testing.T) {
	f := New(t.Context(), Options{Poll: poll, Below: rand.Uint64N})
	for nodes, want := range map[int][2]time.Duration{
		1: {poll, 2 * time.Second}, 540: {poll, 2 * time.Second},
		1080: {500 * time.Millisecond, 2 * time.Second}, 20_000: {5 * time.Second, 20 * time.Second},
	} {
		f.SetNodes(nodes)
		if got := [2]time.Duration{f.Every(), f.Bound()}; got != want {
			t.Errorf("%d nodes: interval and bound %v, want %v", nodes, got, want)
		}
		for range 20 {
			if p := f.pause(); p > want[0] || p < want[0]*4/5 {
				t.Errorf("%d nodes: a pause of %v", nodes, p)
			}
		}
	}
}

// A process that has applied a sequence, by what it says and what requests with a receipt wait
// for, knows the marks of that sequence: there is no moment between the two.
func TestSequenceIsAppliedAfterItsMarks(t *testing.T) {
	k, site := store.Key{Text: "h/"}, store.PurgeTarget{Kind: store.PurgeSite}
	var f *Follower
	var table marks.Table
	var looks int
	look := func() {
		looks++
		if applied, _ := f.Applied(); table.Covering(k, nil, time.Now()).HardSeq < applied {
			t.Errorf("look %d: %d is applied, and its mark is not known", looks, applied)
		}
	}
	f = New(t.Context(), Options{
		Apply: func(change store.Change) {
			look()
			table.Apply(time.Now(), change.Marks...)
			look()
		},
		Applied: func(change store.Change, own bool, _ int64) {
			look()
			if applied, ok := f.Applied(); !ok || applied != change.Seq || f.Committed() != change.Seq || own {
				t.Errorf("applied %d, %t, own %t; want %d", applied, ok, own, change.Seq)
			}
		},
	})
	for seq := int64(1); seq <= 3; seq++ {
		f.apply(store.Change{Seq: seq, Marks: []store.Mark{{Target: site, Seq: seq, HardSeq: seq, At: time.Now()}}})
	}
	if looks != 9 {
		t.Errorf("%d looks, want three within each change", looks)
	}
}
