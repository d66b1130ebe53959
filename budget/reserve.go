package budget

import "time"

// A client whose renders hang would hold all turns until they time out, and clients who
// arrive would wait as long, because a render in progress is not interrupted. So there is a reserve.
// Its size depends on how many turns are free: a client that has n turns gets another one
// only if a third of n+1 stays free then. The first client gets 12 of 16 turns, the second
// 3, and each client without a turn gets any that is free. The same rule bounds all
// regenerations together, so that visitors find turns while all pages of a site expire.
//
// A reserve that stays idle helps only if the other turns do not end soon. A client whose
// renders have been quick for a while borrows it. Such a client may still send pages that
// hang: a client that has held the reserve for long borrows nothing for twenty times as long.

const (
	// quickRender is how long a quick render takes at most, with all that belongs to a turn.
	// If one client has all of 16 turns, the next one is free after a sixteenth of it on
	// average.
	quickRender = time.Second
	// probation is for how long most renders of a client must have been quick. A render that
	// hangs is noticed in half of it.
	probation = 2 * quickRender
	// loanPause is for how long a client borrows nothing after it held a turn of the reserve
	// for longer than quickRender, in multiples of that time.
	loanPause = 20
	// maxDefaulted bounds how many such clients are remembered.
	maxDefaulted = 1024
)

// A usage is what a client, or all regenerations, have of the turns.
type usage struct {
	rendering int       // turns
	slow      int       // of these, the turns that are held for longer than quickRender
	ended     int       // turns that have ended since since
	since     time.Time // when the first turn began after a pause, or the usage was strained last
	last      time.Time // when a turn ended last
}

// strained reports whether more than a quarter of the turns are held for long.
func (u *usage) strained() bool { return 4*u.slow > u.rendering }

func (u *usage) start(now time.Time) {
	if u.rendering == 0 && now.Sub(u.last) > quickRender {
		u.since, u.ended = now, 0
	}
	u.rendering++
}

// slowed notes that a turn is held for longer than quickRender.
func (u *usage) slowed(now time.Time) {
	u.slow++
	if u.strained() {
		u.since, u.ended = now, 0
	}
}

func (u *usage) end(now time.Time, slow bool) {
	strained := u.strained()
	u.rendering--
	u.last = now
	u.ended++
	if slow {
		u.slow--
	}
	if strained {
		u.since, u.ended = now, 0
	}
}

// leavesReserve reports whether enough of the free turns stay free if one is taken.
func (u *usage) leavesReserve(free int) bool { return u.rendering == 0 || u.rendering/3 < free-1 }

// isQuick reports whether most turns of the last while were short, at least as many as the
// budget has.
func (u *usage) isQuick(now time.Time, turns int) bool {
	return !u.strained() && u.ended >= turns && now.Sub(u.since) >= probation
}

// usagesLocked returns the usages that a turn is part of.
func (b *Budget) usagesLocked(t *Turn) []*usage {
	all := []*usage{&b.clients[t.payer].usage}
	if t.class == regeneration {
		all = append(all, &b.stale)
	}
	return all
}

// leavesReserveLocked reports whether a client may have one more render of a class.
func (b *Budget) leavesReserveLocked(c *client, k class) bool {
	free := b.renders - b.rendering
	return (!c.prefix.IsValid() || c.leavesReserve(free)) && (k != regeneration || b.stale.leavesReserve(free))
}

// mayBorrowLocked reports whether a client may have one more render of a class that does
// not leave enough turns free.
func (b *Budget) mayBorrowLocked(c *client, k class) bool {
	now, free := time.Now(), b.renders-b.rendering
	if k == regeneration && !b.stale.leavesReserve(free) && !b.stale.isQuick(now, b.renders) {
		return false
	}
	if !c.prefix.IsValid() || c.leavesReserve(free) {
		return true
	}
	return c.isQuick(now, b.renders) && !now.Before(b.defaulted[c.prefix])
}

// noteSlowLocked notes which renders have become slow. Each is noted once.
func (b *Budget) noteSlowLocked(now time.Time) {
	for e := b.young.Front(); e != nil; e = b.young.Front() {
		t := e.Value.(*Turn)
		if now.Sub(t.began) <= quickRender {
			return
		}
		b.young.Remove(e)
		t.youth = nil
		for _, u := range b.usagesLocked(t) {
			u.slowed(now)
		}
		b.defaultLocked(t, now)
	}
}

// defaultLocked notes for how long the client of a slow turn borrows nothing, if the turn is
// of the reserve.
func (b *Budget) defaultLocked(t *Turn, now time.Time) {
	if !t.borrowed || !t.payer.IsValid() {
		return
	}
	if len(b.defaulted) >= maxDefaulted {
		clear(b.defaulted)
	}
	b.defaulted[t.payer] = now.Add(loanPause * now.Sub(t.began))
}
