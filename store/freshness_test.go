package store

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }

func TestFreshness(t *testing.T) {
	entry := Entry{GeneratedAt: at(0), Revalidate: time.Minute, Stale: time.Hour, PurgeSeq: 7}
	with := func(change func(*Entry)) *Entry {
		e := entry
		change(&e)
		return &e
	}
	foreign := with(func(e *Entry) { e.Foreign, e.PurgeSeq = true, 0 })
	pinned := with(func(e *Entry) { e.PinnedUntil = at(10_000) })
	old := with(func(e *Entry) { e.PinnedUntil = at(1_000_000_000) })
	tests := []struct {
		name  string
		entry *Entry
		cover PurgeState
		now   time.Time
		want  State
	}{
		{"no entry", nil, PurgeState{}, at(0), Missing},
		{"at once", &entry, PurgeState{}, at(0), Fresh},
		{"last moment of the window", &entry, PurgeState{}, at(60).Add(-1), Fresh},
		{"end of the window", &entry, PurgeState{}, at(60), Stale},
		{"last moment of the stale window", &entry, PurgeState{}, at(3660).Add(-1), Stale},
		{"end of the stale window", &entry, PurgeState{}, at(3660), Expired},
		{"a clock slightly ahead", with(func(e *Entry) { e.GeneratedAt = at(120) }), PurgeState{}, at(0), Fresh},
		{"a clock far ahead", with(func(e *Entry) { e.GeneratedAt = at(121) }), PurgeState{}, at(0), Stale},
		{"an older purge", &entry, PurgeState{Seq: 7, At: at(1)}, at(2), Fresh},
		{"a newer purge", &entry, PurgeState{Seq: 8, At: at(1)}, at(2), Stale},
		{"a newer purge, stale window over", &entry, PurgeState{Seq: 8, At: at(1)}, at(3660), Expired},
		{"an older hard purge", &entry, PurgeState{Seq: 7, HardSeq: 7, At: at(1)}, at(2), Fresh},
		{"a newer hard purge", &entry, PurgeState{Seq: 8, HardSeq: 8, At: at(1)}, at(2), Purged},
		{"pinned past the window", pinned, PurgeState{}, at(9_999), Fresh},
		{"the end of the pin", pinned, PurgeState{}, at(10_000), Expired},
		{"a purge of a pinned page", pinned, PurgeState{Seq: 8, At: at(1)}, at(2), Stale},
		{"another writer's, older than the purge", foreign, PurgeState{Seq: 1, At: at(-60)}, at(2), Stale},
		{"another writer's, newer than the purge", foreign, PurgeState{Seq: 1, At: at(-61)}, at(2), Fresh},
		{"marks that may be gone", old, PurgeState{MarkLifetime: 2 * 24 * time.Hour}, at(24 * 3600), Expired},
		{"marks still there", old, PurgeState{MarkLifetime: 2 * 24 * time.Hour}, at(24*3600 - 1), Fresh},
		{
			"asserted again by a rollback", with(func(e *Entry) { e.PinnedUntil, e.AssertedAt = at(1_000_000_000), at(24*3600) }),
			PurgeState{MarkLifetime: 2 * 24 * time.Hour},
			at(24 * 3600), Fresh,
		},
		{"the same build", with(func(e *Entry) { e.Build = 4 }), PurgeState{Build: 4}, at(59), Fresh},
		{"a newer build", with(func(e *Entry) { e.Build = 5 }), PurgeState{Build: 4}, at(59), Fresh},
		{"an older build", with(func(e *Entry) { e.Build = 3 }), PurgeState{Build: 4}, at(59), Stale},
		{"an older build, stale window over", with(func(e *Entry) { e.Build = 3 }), PurgeState{Build: 4}, at(3660), Expired},
		{"an unknown build, rendered after this one was deployed", &entry, PurgeState{Build: 4}, at(59), Stale},
		{"an older build, asserted before this one", with(func(e *Entry) { e.AssertedAt, e.Build = at(1), 3 }), PurgeState{Build: 8}, at(59), Stale},
		{"an older build, asserted after this one", with(func(e *Entry) { e.AssertedAt, e.Build = at(1), 3 }), PurgeState{Build: 7}, at(59), Fresh},
		{"an older build, pinned", pinned, PurgeState{Build: 4}, at(9_999), Fresh},
		{"another writer's, which has no build", foreign, PurgeState{Build: 4}, at(59), Fresh},
		{"an interval beyond all bounds", with(func(e *Entry) { e.Revalidate = 1<<63 - 1 }), PurgeState{}, at(3600), Fresh},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Freshness(tt.entry, tt.cover, tt.now); got != tt.want {
				t.Errorf("Freshness = %v, want %v", got, tt.want)
			}
		})
	}
}

// Whatever the entry: time alone, and further purges, never make it better.
func TestFreshnessOnlyDeclines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(name string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, name) }
		e := &Entry{
			GeneratedAt: at(seconds("generated", -1000, 0)),
			Revalidate:  time.Duration(seconds("revalidate", 0, 500)) * time.Second,
			Stale:       time.Duration(seconds("stale", 0, 500)) * time.Second,
			PurgeSeq:    seconds("purge_seq", 0, 5),
			Foreign:     rapid.Bool().Draw(t, "foreign"),
		}
		hard := seconds("hard", 0, 5)
		e.Build = seconds("build", 0, 3)
		cover := PurgeState{Build: seconds("own build", 0, 3), Seq: max(hard, seconds("seq", 0, 5)), HardSeq: hard, At: at(seconds("at", -1000, 1000))}
		now := at(seconds("now", 0, 1000))
		later := now.Add(time.Duration(seconds("wait", 0, 1000)) * time.Second)
		newer := cover.Merge(PurgeState{Seq: cover.Seq + 1, HardSeq: seconds("newer hard", 0, 6), Build: seconds("newer build", 0, 4), At: cover.At.Add(time.Second)})

		state := Freshness(e, cover, now)
		if got := Freshness(e, cover, later); got > state {
			t.Errorf("%v became %v by waiting", state, got)
		}
		if got := Freshness(e, newer, now); got > state {
			t.Errorf("%v became %v by a purge", state, got)
		}
		if state == Fresh && !now.Before(e.FreshUntil()) {
			t.Errorf("fresh after its window")
		}
	})
}
