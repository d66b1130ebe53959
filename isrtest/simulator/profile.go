package simulator

import (
	"math/rand/v2"
	"time"
)

// A profile is the kind of misfortune that a world suffers. Seeds take turns, so
// that what holds without faults, and is more, is checked as often as what holds
// under all of them.
type profile struct {
	name     string
	faults   float64 // of a hundred calls, so many meet one
	prompt   bool    // no time passes while a call waits
	skew     bool    // clocks differ
	failures bool    // renderers fail, refuse, and are slow
	lasting  bool    // pages stay fresh for minutes, so that memory has many
	slowSEQ  bool    // reads of SEQ take their time
	quiet    bool    // few visitors come, so that more time passes
	lags     bool    // reads that are not strong are answered as of before
	// lost is how many of a hundred replies are lost, by what was asked for, beside
	// the faults.
	lost map[errand]float64

	// Weights of steps, beside those of letting calls through (60), letting
	// time pass (20) and sending visitors (15).
	crashes, freezes, forces, externals, purges, tagPurges, assertions, demands, collections, cuts, damages, rushes int
}

// profiles are in the order of the seeds.
func profiles() []profile {
	return []profile{
		{name: "calm", prompt: true},
		{name: "network", faults: 20, assertions: 1, demands: 1},
		{name: "skew", skew: true, failures: true, forces: 2, assertions: 1, demands: 1},
		{name: "crashes", crashes: 3, faults: 5, demands: 2, collections: 1},
		{name: "freezes", freezes: 4, faults: 5, failures: true, forces: 1, purges: 1, assertions: 2, demands: 1},
		{name: "writers", externals: 4, purges: 4, tagPurges: 1, forces: 3, faults: 5, assertions: 2, collections: 1},
		{name: "rollbacks", prompt: true, failures: true, forces: 3, tagPurges: 1, assertions: 4, collections: 2},
		{name: "requests", faults: 15, failures: true, crashes: 1, freezes: 1, demands: 8},
		{name: "chaos", faults: 12, skew: true, failures: true, crashes: 1, freezes: 1, forces: 2, externals: 2, purges: 2, assertions: 2, demands: 2, collections: 1},
		{name: "storm", faults: 40, skew: true, failures: true, crashes: 2, freezes: 2, forces: 2, externals: 2, purges: 2, assertions: 2, demands: 2, collections: 1},
		{name: "hanging", quiet: true, cuts: 1, failures: true, forces: 1, assertions: 1, demands: 1},
		{name: "replies", lost: map[errand]float64{acquiring: 30, refreshing: 15, publishing: 20, asserting: 20, backingOff: 20, releasing: 20}, forces: 2, assertions: 2, demands: 2},
		{name: "log", lasting: true, slowSEQ: true, damages: 3, freezes: 1, faults: 3, failures: true, forces: 2, assertions: 4, purges: 1},
		{name: "lagging", lags: true, forces: 3, assertions: 2, purges: 2, demands: 2, collections: 2},
		{name: "contention", rushes: 3, forces: 2, assertions: 2, purges: 3, faults: 2},
		{name: "garbage", demands: 6, forces: 5, collections: 5, externals: 1},
	}
}

func isNamed(name string) func(profile) bool {
	return func(p profile) bool { return p.name == name }
}

// profileOf is the profile that a seed stands for.
func profileOf(seed uint64) profile {
	all := profiles()
	return all[seed%uint64(len(all))]
}

// calm says that nothing goes wrong, so that each expiry is worth exactly one
// render.
func (p profile) calm() bool { return p.name == "calm" && p.prompt }

// skewOf draws the error of a node's clock, which is longest at most.
func (p profile) skewOf(rng *rand.Rand, longest time.Duration) time.Duration {
	if !p.skew {
		return 0
	}
	return time.Duration(rng.Int64N(int64(2*longest)+1)) - longest
}
