package simulator

import (
	"cmp"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// A pace is the speed of a world. Its events are specified in durations of virtual time, where a
// lease lasts half a minute; in real time they pass faster. Durations that the table stores in
// whole seconds, and those that a busy machine needs at any speed, are separate fields.
type pace struct {
	// settle returns when all goroutines are blocked. It is nil in real time, which has no such
	// moment: there the seed decides only the driver's draws.
	settle func()
	// speed is the factor by which durations are shortened.
	speed time.Duration

	polls time.Duration // interval at which nodes read the log; 0: pollTime

	skew time.Duration // largest error of a clock, either way

	callTimeout   time.Duration // of the store
	settleTimeout time.Duration // of the store

	// pollSlack is how long after a poll a node may take to learn of a rollback, in a world whose
	// table responds at once.
	pollSlack time.Duration
	// purgeEvery is in how many steps a purge can be drawn once. In real time a page is rendered
	// and published in as long as many steps take; with more purges none would keep two
	// generations, and no rollback would succeed.
	purgeEvery int
	// logLife is how long rows of the log are kept: in virtual time at most as long as a node may be
	// frozen.
	logLife time.Duration
	// misdeeds is the number of faulty responses of origins (see origin.misbehave). The cache
	// remembers the last for two minutes.
	misdeeds int
	// grudges: a refused page stays uncacheable, even for longer than two minutes.
	grudges bool
	// margin bounds the time of a goroutine from reading its clock to its call at the gate, or from a
	// response to its consequences. It is short unless the machine is busy.
	margin time.Duration

	lead      time.Duration // for creating the table
	steps     int           // before the faults stop
	life      time.Duration // before the faults stop
	glance    time.Duration // the driver's interval while it waits for more than calls
	recovery  time.Duration // see recover.go
	patience  time.Duration // of callers that wait as long as necessary
	afterlife time.Duration // how long goroutines of dead processes live
}

// virtual is the pace in a bubble.
func virtual(steps int) pace {
	return pace{
		settle: synctest.Wait, speed: 1,
		skew:        MaxSkew,
		callTimeout: 5 * time.Second, settleTimeout: 15 * time.Second,
		pollSlack: time.Second, purgeEvery: 1, logLife: 2 * time.Minute, misdeeds: 4, grudges: true,
		lead: time.Minute, steps: steps, life: forever, glance: forever,
		recovery: 5 * time.Minute, patience: time.Hour, afterlife: time.Hour,
	}
}

// realTime is the pace in real time: leases of two to three seconds, windows of one to four.
func realTime() pace {
	return pace{
		speed:       15,
		skew:        1500 * time.Millisecond,
		callTimeout: time.Second, settleTimeout: 3 * time.Second,
		pollSlack: time.Second, purgeEvery: 10, logLife: store.LogLife, misdeeds: 3, margin: time.Second,
		steps: unlimited, life: RealTime, glance: 10 * time.Millisecond,
		recovery: time.Minute, patience: time.Minute, afterlife: time.Second,
	}
}

const (
	forever   = 100 * 365 * 24 * time.Hour
	unlimited = 1 << 62
)

// ordered reports whether the seed determines everything.
func (p pace) ordered() bool { return p.settle != nil }

// of converts a duration of virtual time to this pace.
func (p pace) of(d time.Duration) time.Duration { return d / p.speed }

// seconds is like of, rounded up to whole seconds.
func (p pace) seconds(d time.Duration) time.Duration {
	return (p.of(d) + time.Second - 1).Truncate(time.Second)
}

// lease is how long a lease lasts without a heartbeat.
func (p pace) lease() time.Duration { return p.of(LeaseTime) }

// poll is the interval at which nodes read the log.
func (p pace) poll() time.Duration { return p.of(cmp.Or(p.polls, pollTime)) }
