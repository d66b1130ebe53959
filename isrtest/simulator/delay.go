package simulator

import "time"

// delays measure how long this machine delays a world beyond what the driver intends:
// in real time, a busy machine may for any time.
type delays struct {
	turn    time.Time     // of the last measurement
	slept   time.Duration // intentional sleep since then
	worst   time.Duration
	lost    time.Duration // total delay before the latest deadline
	excused bool          // a late recovery was excused for that reason
}

// meant records intentional sleep of the driver.
func (d *delays) meant(slept time.Duration) { d.slept += slept }

// noteDelays measures delays since the last call. A world with a long delay is no longer
// prompt, whatever its profile: leases may have expired and calls timed out without
// any fault.
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

// tooLate is violate for a missed deadline, unless the driver had more calls to execute
// than it could, and spent most of the time on them.
func (w *world) tooLate(invariant, format string, args ...any) {
	if w.delays.lost > w.pace.recovery/2 {
		w.log("this machine is too slow for a world to recover: the driver lost %.3fs", w.delays.lost.Seconds())
		w.counts["too slow"]++
		w.delays.excused = true
		return
	}
	w.violate(invariant, format, args...)
}
