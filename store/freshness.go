package store

import (
	"time"
)

// Bounds of the table's arithmetic.
const (
	// MaxInterval bounds every stored interval; longer ones are clamped.
	MaxInterval = 10 * 365 * 24 * time.Hour
	// ClockTolerance is how far ahead a generated_at may lie before it is taken
	// for the work of a wrong clock.
	ClockTolerance = 2 * time.Minute
	// purgeTolerance is the clock difference granted between a purge and an
	// entry of another writer, which carries no sequence.
	purgeTolerance = 60 * time.Second
	// markMargin is subtracted from the life of purge marks: an entry that may
	// outlive a mark that covers it is not trusted.
	markMargin = 24 * time.Hour
)

// A State is what freshness says of an entry.
type State int

const (
	// Missing: there is no entry, or it was withdrawn.
	Missing State = iota
	// Purged: a hard purge covers the entry; it is never served.
	Purged
	// Expired: too old to be served, except while the origin fails.
	Expired
	// Stale: served, while it is regenerated behind.
	Stale
	// Fresh: served as it is.
	Fresh
)

func (s State) String() string {
	switch s {
	case Missing:
		return "missing"
	case Purged:
		return "purged"
	case Expired:
		return "expired"
	case Stale:
		return "stale"
	case Fresh:
		return "fresh"
	}
	return "unknown"
}

// A PurgeState is the newest of the purges that cover one entry.
type PurgeState struct {
	// Seq is the highest sequence of any covering purge, HardSeq of a hard one.
	Seq, HardSeq int64
	// At is when the newest covering purge was made.
	At time.Time
	// MarkLifetime is how long purge marks are kept, 0 if that is not known
	// because nothing was ever purged.
	MarkLifetime time.Duration
}

// Merge returns the cover that is the newer of c and o in each respect.
func (c PurgeState) Merge(o PurgeState) PurgeState {
	if o.At.After(c.At) {
		c.At = o.At
	}
	return PurgeState{
		Seq:          max(c.Seq, o.Seq),
		HardSeq:      max(c.HardSeq, o.HardSeq),
		At:           c.At,
		MarkLifetime: max(c.MarkLifetime, o.MarkLifetime),
	}
}

// Freshness is the one rule that decides what an entry is worth at a moment,
// given the purges that cover it. It is pure, and everything that serves,
// regenerates or explains asks it. A nil entry is [Missing], and so is one that was
// withdrawn.
func Freshness(e *Entry, c PurgeState, now time.Time) State {
	if e == nil || e.Withdrawn {
		return Missing
	}
	if e.coveredBy(c.HardSeq, c.At) {
		return Purged
	}
	if e.OutlivesMarks(c.MarkLifetime, now) {
		return Expired
	}
	covered := e.coveredBy(c.Seq, c.At)
	aheadOfTime := e.GeneratedAt.Sub(now) > ClockTolerance
	inWindow := now.Before(e.FreshUntil()) && !aheadOfTime
	if !covered && (inWindow || e.PinnedUntil.After(now)) {
		return Fresh
	}
	if now.Before(e.StaleUntil()) {
		return Stale
	}
	return Expired
}

// OutlivesMarks reports whether purge marks that cover the entry may have been
// forgotten by now, if marks are kept for lifetime; 0: there are none.
func (e *Entry) OutlivesMarks(lifetime time.Duration, now time.Time) bool {
	if lifetime <= 0 {
		return false
	}
	asserted := e.AssertedAt
	if asserted.IsZero() {
		asserted = e.GeneratedAt
	}
	return !now.Before(asserted.Add(lifetime - markMargin))
}

// FreshUntil is the end of the freshness window.
func (e *Entry) FreshUntil() time.Time {
	return e.GeneratedAt.Add(ClampInterval(e.Revalidate))
}

// StaleUntil is the end of the stale window.
func (e *Entry) StaleUntil() time.Time {
	return e.FreshUntil().Add(ClampInterval(e.Stale))
}

// Age is the time since the entry was generated, in whole seconds, never negative.
func (e *Entry) Age(now time.Time) time.Duration {
	return max(0, now.Sub(e.GeneratedAt).Truncate(time.Second))
}

// coveredBy says whether a purge with this sequence, made at this time, came
// after the entry's content. An entry of another writer has no sequence: its
// time decides, with a tolerance for clocks, in favour of the purge.
func (e *Entry) coveredBy(seq int64, at time.Time) bool {
	if seq == 0 {
		return false
	}
	if e.Foreign {
		return !e.GeneratedAt.After(at.Add(purgeTolerance))
	}
	return seq > e.PurgeSeq
}

func ClampInterval(d time.Duration) time.Duration {
	return min(max(d, 0), MaxInterval)
}
