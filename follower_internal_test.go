package isr

import (
	"math"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

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

// A process that has applied a sequence, by what it says and what requests with a receipt wait
// for, knows the marks of that sequence: there is no moment between the two.
func TestSequenceIsAppliedAfterItsMarks(t *testing.T) {
	k, site := store.Key{Text: "h/"}, store.PurgeTarget{Kind: store.PurgeSite}
	var c *Cache
	var looks int
	look := func() {
		looks++
		if applied, _ := c.follower.applied(); c.marks.Covering(k, nil, time.Now()).HardSeq < applied {
			t.Errorf("look %d: %d is applied, and its mark is not known", looks, applied)
		}
	}
	c, err := New(nil, nil, Config{Poll: -1, Now: func() time.Time {
		if c != nil {
			look() // the follower asks for the time while it applies a change
		}
		return time.Now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 3; seq++ {
		c.follower.apply(store.Change{Seq: seq, Marks: []store.Mark{{Target: site, Seq: seq, HardSeq: seq, At: time.Now()}}})
		if applied, ok := c.follower.applied(); !ok || applied != seq {
			t.Errorf("applied %d, %t; want %d", applied, ok, seq)
		}
	}
	if looks < 3 {
		t.Errorf("%d looks, want one within each change", looks)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
