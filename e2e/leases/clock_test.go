//go:build linux || darwin

package leases

import (
	"time"

	"golang.org/x/sys/unix"
)

// An instant is one moment on both clocks.
type instant struct {
	// Mono orders the calls of all processes. It is CLOCK_MONOTONIC in nanoseconds, which has
	// one origin for the whole machine and is never set.
	Mono int64 `json:"mono"`
	// Wall is the clock that decides lease expiry, in nanoseconds since the epoch.
	Wall int64 `json:"wall"`
}

// A clock returns the current instant. Tests may replace the machine clock.
type clock func() instant

// wall has the signature of a store's Now.
func (c clock) wall() time.Time { return time.Unix(0, c().Wall) }

// machineClock reads the clocks that all processes share. Package time does not expose its
// monotonic reading, so it cannot be compared across processes.
func machineClock() instant {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel has no such clock
	}
	return instant{Mono: now.Nano(), Wall: time.Now().UnixNano()}
}

// A moment is one reading of the wall clock in epoch seconds, rounded in the two ways that
// stores round it: down to judge whether a lease has expired, up to compute its expiry.
type moment struct{ down, up int64 }

// moments returns the clock readings that a call may have taken between two instants. This is
// the only tolerance of the model: a store that judges by a time outside of its call fails.
func moments(from, to instant) []moment {
	const second = int64(time.Second)
	first, last := min(from.Wall, to.Wall), max(from.Wall, to.Wall) // the clock may have been set back
	var all []moment
	for s := first / second; s <= last/second; s++ {
		if s*second >= first {
			all = append(all, moment{s, s}) // exactly on the second
		}
		all = append(all, moment{s, s + 1})
	}
	return all
}
