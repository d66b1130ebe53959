package simulator

import (
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// A pace is how fast a world lives. What happens in it is told in the durations of
// virtual time, where a lease lasts half a minute, and nobody has to wait for it;
// in real time they pass faster. What the table counts in whole seconds, and what a
// busy machine needs however fast the world is, has durations of its own.
type pace struct {
	// settle returns when nothing moves any more. It is nil in real time, which
	// has no such moment: there nothing follows from the seed but the driver's
	// own lots.
	settle func()
	// speed is how many times faster than told things happen.
	speed time.Duration

	skew time.Duration // of a clock, either way, at most

	callTimeout   time.Duration // of the store
	settleTimeout time.Duration // of the store

	// pollSlack is how much later than after a poll a node may have heard of a
	// rollback, in a world whose table answers at once.
	pollSlack time.Duration
	// logLife is how long rows of the log are kept: in virtual time not for longer
	// than a node may be frozen.
	logLife time.Duration
	// misdeeds is how many of them origins know (see origin.misbehave). The last
	// is remembered for two minutes by a cache, whatever comes.
	misdeeds int
	// grudges: a page that was refused stays uncacheable, also for longer than two
	// minutes.
	grudges bool
	// margin is how long a goroutine may take from a look at its clock to the
	// call at the gate, or from an answer to what follows from it. It is but a
	// moment, unless the machine is busy.
	margin time.Duration

	lead      time.Duration // in which the table is made
	steps     int           // before the faults stop
	life      time.Duration // before the faults stop
	glance    time.Duration // how long the driver looks away, where it waits for more than calls
	recovery  time.Duration // see recover.go
	patience  time.Duration // of those who wait for as long as it takes
	afterlife time.Duration // how long goroutines of dead processes stay
}

// virtual is the pace of a bubble.
func virtual(steps int) pace {
	return pace{
		settle: synctest.Wait, speed: 1,
		skew:        MaxSkew,
		callTimeout: 5 * time.Second, settleTimeout: 15 * time.Second,
		pollSlack: time.Second, logLife: 2 * time.Minute, misdeeds: 4, grudges: true,
		lead: time.Minute, steps: steps, life: forever, glance: forever,
		recovery: 5 * time.Minute, patience: time.Hour, afterlife: time.Hour,
	}
}

// realTime is the pace where time passes by itself: leases of two to three
// seconds, windows of one to four.
func realTime() pace {
	return pace{
		speed:       15,
		skew:        1500 * time.Millisecond,
		callTimeout: time.Second, settleTimeout: 3 * time.Second,
		pollSlack: time.Second, logLife: store.LogLife, misdeeds: 3, margin: time.Second,
		steps: unlimited, life: RealTime, glance: 10 * time.Millisecond,
		recovery: time.Minute, patience: time.Minute, afterlife: time.Second,
	}
}

const (
	forever   = 100 * 365 * 24 * time.Hour
	unlimited = 1 << 62
)

// ordered says that the seed decides all that happens.
func (p pace) ordered() bool { return p.settle != nil }

// of is how long something takes that is told to take d.
func (p pace) of(d time.Duration) time.Duration { return d / p.speed }

// seconds is of in whole seconds, at least one.
func (p pace) seconds(d time.Duration) time.Duration {
	return (p.of(d) + time.Second - 1).Truncate(time.Second)
}

// lease is how long a lease lasts without a sign of life.
func (p pace) lease() time.Duration { return p.of(LeaseTime) }

// poll is how often nodes read the log.
func (p pace) poll() time.Duration { return p.of(pollTime) }
