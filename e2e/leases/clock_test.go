//go:build linux || darwin

package leases

import (
	"time"

	"golang.org/x/sys/unix"
)

// An instant is one moment on both clocks.
type instant struct {
	// Mono orders the calls of all processes: CLOCK_MONOTONIC, in nanoseconds,
	// counts from one beginning for the whole machine, and is never set.
	Mono int64 `json:"mono"`
	// Wall is what leases are judged by, in nanoseconds since the epoch.
	Wall int64 `json:"wall"`
}

// A clock tells the time. What a test makes may be another one than the machine's.
type clock func() instant

// wall is the clock as stores want it.
func (c clock) wall() time.Time { return time.Unix(0, c().Wall) }

// machineClock is the clock that all processes share. That of package time cannot
// be compared across processes: its monotonic reading is hidden.
func machineClock() instant {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel has no such clock
	}
	return instant{Mono: now.Nano(), Wall: time.Now().UnixNano()}
}

// A moment is a reading of the wall clock in the two ways in which stores round it:
// down where a lease is judged, up where one is to end. In epoch seconds.
type moment struct{ down, up int64 }

// moments are the readings that a call may have taken between two instants. They
// are the whole tolerance of the judge: those who judged by another time than their
// call's are found out.
func moments(from, to instant) []moment {
	const second = int64(time.Second)
	first, last := min(from.Wall, to.Wall), max(from.Wall, to.Wall) // the clock may have been set
	var all []moment
	for s := first / second; s <= last/second; s++ {
		if s*second >= first {
			all = append(all, moment{s, s}) // on the very second
		}
		all = append(all, moment{s, s + 1})
	}
	return all
}
