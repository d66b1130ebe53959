package simulator

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A profile is the kind of faults of a world. Seeds alternate between profiles, so that the
// stronger invariants of worlds without faults are checked as often as the others.
type profile struct {
	name     string
	faults   float64 // percentage of calls that meet a fault
	prompt   bool    // no time passes while a call waits
	skew     bool    // clocks differ
	failures bool    // renders fail, are refused, and are slow
	lasting  bool    // pages stay fresh for minutes, so that memory holds many
	slowSEQ  bool    // reads of SEQ are slow
	quiet    bool    // few visitors, so that more time passes
	lags     bool    // eventually consistent reads return old results
	peers    bool    // processes are each other's peers, some of which lie, are slow, or are dead
	tears    bool    // reads show transactions in part
	// lost is the percentage of replies that are lost, by errand, in addition to the faults.
	lost map[errand]float64

	// Weights of steps. Others: letting calls proceed (60), letting time pass (20), sending
	// visitors (15).
	crashes, freezes, forces, externals, purges, tagPurges, assertions, demands, collections, cuts, damages, rushes, nodePurges, posts int
}

// profiles are in the order of seeds: every second time the last one is "peers".
func profiles() []profile {
	first := basicProfiles()
	second := slices.Clone(first)
	second[len(second)-1] = profile{
		name: "peers", peers: true, faults: 8, skew: true, failures: true,
		crashes: 2, freezes: 2, forces: 2, purges: 1, assertions: 2, nodePurges: 6, posts: 1,
	}
	return slices.Concat(first, second)
}

func basicProfiles() []profile {
	return []profile{
		{name: "calm", prompt: true},
		{name: "network", faults: 20, assertions: 1, demands: 1, nodePurges: 1},
		{name: "skew", skew: true, failures: true, forces: 2, assertions: 1, demands: 1, nodePurges: 1, posts: 2},
		{name: "crashes", crashes: 3, faults: 5, demands: 2, collections: 1, nodePurges: 3},
		{name: "freezes", freezes: 4, faults: 5, failures: true, forces: 1, purges: 1, assertions: 2, demands: 1, nodePurges: 2, posts: 1},
		{name: "writers", externals: 4, purges: 4, tagPurges: 1, forces: 3, faults: 5, assertions: 2, collections: 1, nodePurges: 2},
		{name: "rollbacks", prompt: true, failures: true, forces: 3, tagPurges: 1, assertions: 4, collections: 2, nodePurges: 2, posts: 1},
		{name: "requests", faults: 15, failures: true, crashes: 1, freezes: 1, demands: 8, nodePurges: 1},
		{name: "chaos", faults: 12, skew: true, failures: true, crashes: 1, freezes: 1, forces: 2, externals: 2, purges: 2, assertions: 2, demands: 2, collections: 1, nodePurges: 2, posts: 1},
		{name: "storm", faults: 40, skew: true, failures: true, crashes: 2, freezes: 2, forces: 2, externals: 2, purges: 2, assertions: 2, demands: 2, collections: 1, nodePurges: 2},
		{name: "hanging", quiet: true, cuts: 1, failures: true, forces: 1, assertions: 1, demands: 1, nodePurges: 1},
		{name: "replies", lost: map[errand]float64{purging: 20, acquiring: 30, refreshing: 15, publishing: 20, asserting: 20, backingOff: 20, releasing: 20}, forces: 2, assertions: 2, demands: 2, nodePurges: 3},
		{name: "log", lasting: true, slowSEQ: true, damages: 3, freezes: 1, faults: 3, failures: true, forces: 2, assertions: 4, purges: 1, nodePurges: 1},
		{name: "lagging", lags: true, forces: 3, assertions: 2, purges: 2, demands: 2, collections: 2, nodePurges: 2, posts: 2},
		{name: "contention", rushes: 3, forces: 2, assertions: 2, purges: 3, faults: 2, nodePurges: 2, posts: 1},
		{name: "purges", faults: 8, skew: true, crashes: 1, freezes: 1, forces: 2, assertions: 2, collections: 1, rushes: 1, nodePurges: 8, posts: 2},
		{name: "garbage", demands: 6, forces: 5, collections: 5, externals: 1, nodePurges: 2},
		{name: "torn", tears: true, faults: 3, lost: map[errand]float64{publishing: 10, purging: 10, asserting: 10}, crashes: 1, forces: 3, assertions: 4, demands: 1, nodePurges: 6, posts: 2},
		{name: "posts", prompt: true, forces: 1, posts: 6, nodePurges: 1},
	}
}

func isNamed(name string) func(profile) bool {
	return func(p profile) bool { return p.name == name }
}

// profileOf returns the profile of a seed.
func profileOf(seed uint64) profile {
	all := profiles()
	return all[seed%uint64(len(all))]
}

// calm reports whether nothing fails, so that each expiry causes exactly one render.
func (p profile) calm() bool { return p.name == "calm" && p.prompt }

// skewOf draws the error of a node's clock, at most longest.
func (p profile) skewOf(rng *rand.Rand, longest time.Duration) time.Duration {
	if !p.skew {
		return 0
	}
	return time.Duration(rng.Int64N(int64(2*longest)+1)) - longest
}
