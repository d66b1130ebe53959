package simulator

import "time"

// delays tell how long this machine keeps a world waiting, beyond what the driver
// wants: in real time a busy one does, for as long as it likes.
type delays struct {
	turn    time.Time     // when the driver looked last
	slept   time.Duration // as long as it meant to, since then
	worst   time.Duration
	lost    time.Duration // in all, of the time until the latest deadline
	excused bool          // it recovered too late for that reason
}

// meant notes that the driver sleeps on purpose.
func (d *delays) meant(slept time.Duration) { d.slept += slept }

// noteDelays looks for delays since the last time. A world that was held up for
// long is not prompt any more, whatever its profile says: leases may have run out
// in it, and calls timed out, that nothing went wrong with.
func (w *world) noteDelays() {
	now, d := time.Now(), &w.delays
	if !d.turn.IsZero() {
		late := now.Sub(d.turn) - d.slept
		d.worst = max(d.worst, late)
		d.lost += late
	}
	d.turn, d.slept = now, 0
	if !w.profile.prompt {
		return
	}
	if late := max(d.worst, w.gate.longest(now)); late > w.pace.lease()/4 {
		w.log("this machine is too slow for a world to be prompt: something took %.3fs", late.Seconds())
		w.counts["too slow"]++
		w.profile.prompt = false
	}
}

// tooLate is violate for what has not come by its time; unless the driver had more
// calls to carry out than it could, and spent most of that time on them.
func (w *world) tooLate(invariant, format string, args ...any) {
	if w.delays.lost > w.pace.recovery/2 {
		w.log("this machine is too slow for a world to recover: the driver lost %.3fs", w.delays.lost.Seconds())
		w.counts["too slow"]++
		w.delays.excused = true
		return
	}
	w.violate(invariant, format, args...)
}
