package store

import (
	"time"
)

// Bounds of the table's arithmetic.
const (
	// MaxInterval is the longest stored interval; longer ones are clamped.
	MaxInterval = 10 * 365 * 24 * time.Hour
	// ClockTolerance is how far in the future a generated_at may lie before it is
	// attributed to a wrong clock.
	ClockTolerance = 2 * time.Minute
	// purgeTolerance is the clock difference that is tolerated between a purge and a
	// foreign entry, which has no sequence.
	purgeTolerance = 60 * time.Second
	// markMargin is subtracted from the lifetime of purge marks: an entry that may
	// outlive a mark that covers it is not trusted.
	markMargin = 24 * time.Hour
)

// A State is the result of [Freshness].
type State int

const (
	// Missing: there is no entry, or it was withdrawn.
	Missing State = iota
	// Purged: a hard purge covers the entry, which must never be served.
	Purged
	// Expired: too old to be served, except during a failure of the origin.
	Expired
	// Stale: served while it is regenerated in the background.
	Stale
	// Fresh: served without regeneration.
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

// A PurgeState is the newest purge that covers an entry.
type PurgeState struct {
	// Seq is the highest sequence of a covering purge, HardSeq the highest sequence of a hard one.
	Seq, HardSeq int64
	// At is when the newest covering purge was made.
	At time.Time
	// MarkLifetime is how long purge marks are kept, 0 if unknown because nothing was
	// ever purged.
	MarkLifetime time.Duration
	// Build is the sequence at which the reader's build of the site was deployed, 0 if
	// unknown. Entries of older builds are stale.
	Build int64
}

// Merge returns the newer of both states in each field.
func (p PurgeState) Merge(o PurgeState) PurgeState {
	if o.At.After(p.At) {
		p.At = o.At
	}
	return PurgeState{
		Seq:          max(p.Seq, o.Seq),
		HardSeq:      max(p.HardSeq, o.HardSeq),
		At:           p.At,
		MarkLifetime: max(p.MarkLifetime, o.MarkLifetime),
		Build:        max(p.Build, o.Build),
	}
}

// Freshness decides whether an entry may be served at a time, given the purges that cover
// it. It is a pure function, and the only place where freshness is decided. A nil entry is
// [Missing], and so is a withdrawn one.
func Freshness(e *Entry, p PurgeState, now time.Time) State {
	if e == nil || e.Withdrawn {
		return Missing
	}
	if e.coveredBy(p.HardSeq, p.At) {
		return Purged
	}
	if e.OutlivesMarks(p.MarkLifetime, now) {
		return Expired
	}
	covered := e.coveredBy(p.Seq, p.At)
	inFuture := e.GeneratedAt.Sub(now) > ClockTolerance
	oldBuild := !e.Foreign && e.builtAt() < p.Build
	inWindow := now.Before(e.FreshUntil()) && !inFuture && !oldBuild
	if !covered && (inWindow || e.PinnedUntil.After(now)) {
		return Fresh
	}
	// What ends the window early does not grant a stale window: an entry without one is
	// rendered before it is served.
	endedEarly := covered || oldBuild
	if now.Before(e.StaleUntil()) && !(endedEarly && ClampInterval(e.Stale) == 0) {
		return Stale
	}
	return Expired
}

// CoveredBy reports whether a purge, soft or hard, covers the entry.
func (e *Entry) CoveredBy(p PurgeState) bool { return e.coveredBy(max(p.Seq, p.HardSeq), p.At) }

// OutlivesMarks reports whether purge marks that cover the entry may have expired by now,
// if marks are kept for lifetime; 0 means that there are none.
func (e *Entry) OutlivesMarks(lifetime time.Duration, now time.Time) bool {
	if lifetime <= 0 {
		return false
	}
	return !now.Before(e.Asserted().Add(lifetime - markMargin))
}

// Asserted returns when the generation was made current last: by a rollback, or when it was
// generated. No purge from before covers it.
func (e *Entry) Asserted() time.Time {
	if e.AssertedAt.IsZero() {
		return e.GeneratedAt
	}
	return e.AssertedAt
}

// FreshUntil is the end of the freshness window.
func (e *Entry) FreshUntil() time.Time {
	return e.GeneratedAt.Add(ClampInterval(e.Revalidate))
}

// StaleUntil is the end of the stale window.
func (e *Entry) StaleUntil() time.Time {
	return e.FreshUntil().Add(ClampInterval(e.Stale))
}

// Age is the time since the origin generated the entry, in whole seconds, at least zero (RFC
// 9111, section 4.2.3).
func (e *Entry) Age(now time.Time) time.Duration {
	return max(0, now.Sub(e.GeneratedAt).Truncate(time.Second)) + e.InitialAge
}

// coveredBy reports whether a purge with this sequence, made at this time, covers the
// entry: it was made after rendering began. A foreign entry has no sequence, so its time
// decides, with a clock tolerance in favour of the purge.
func (e *Entry) coveredBy(seq int64, at time.Time) bool {
	if seq == 0 {
		return false
	}
	if e.Foreign {
		return !e.GeneratedAt.After(at.Add(purgeTolerance))
	}
	return seq > e.PurgeSeq
}

// builtAt returns the sequence of the newest build that the entry counts as being of. A
// rollback makes its generation one of the build that was current then: otherwise the next
// process that reads it would regenerate it at once.
func (e *Entry) builtAt() int64 {
	if e.AssertedAt.IsZero() {
		return e.Build
	}
	return max(e.Build, e.PurgeSeq)
}

// ClampInterval returns d, at least zero and at most [MaxInterval].
func ClampInterval(d time.Duration) time.Duration {
	return min(max(d, 0), MaxInterval)
}
