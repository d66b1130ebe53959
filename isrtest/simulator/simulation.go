package simulator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/store"
)

// Bounds of every world, in virtual time; in real time the durations are shorter.
const (
	// MaxSkew is the largest error of a node's clock.
	MaxSkew = 30 * time.Second
	// LeaseTime is how long a lease lasts without a heartbeat.
	LeaseTime = 30 * time.Second
	// Linger is how long after its caller gave up or died a request may still be executed, as
	// happens when a connection closes during a request.
	Linger = 2 * time.Second
	// DefaultSteps is the length of a simulation, without recovery.
	DefaultSteps = 300
)

// RealTime is the length of a simulation in real time, without the recovery, which takes a few seconds
// more.
const RealTime = 15 * time.Second

// An Engine stores the table of a world.
type Engine interface {
	dynamostore.API
	dynamostore.TableAPI
}

// A Config describes a simulation.
type Config struct {
	// Seed determines everything; in real time, only what the driver does.
	Seed uint64
	// Steps is the number of steps before the faults stop. Zero means DefaultSteps. In real time the
	// faults stop after RealTime instead.
	Steps int
	// Engine is where the world creates a table of its own and leaves it. It is called outside the
	// bubble, so it may do I/O. Nil means a localdynamo in memory, which is discarded afterwards.
	Engine Engine
	// Bug is what to break. Nil breaks nothing.
	Bug *Bug
}

// A Bug breaks one promise between two layers of every node, to test that an invariant detects it.
// Fields that are nil change nothing.
type Bug struct {
	// Name describes what is broken.
	Name string
	// Profile names the kind of faults that reveals it. Empty: any.
	Profile string
	// API wraps the DynamoDB client of a node.
	API func(dynamostore.API) dynamostore.API
	// Meta wraps the cache's metadata store.
	Meta func(store.MetaStore, store.BodyStore) store.MetaStore
	// Bodies wraps the cache's body store.
	Bodies func(store.BodyStore) store.BodyStore
	// Collect replaces gc.Collect.
	Collect func(context.Context, gc.Store, store.BodyStore, gc.CollectOptions) (gc.Collected, error)
}

// Profiles returns the number of profiles: seeds this far apart have the same profile.
func Profiles() uint64 { return uint64(len(profiles())) }

// Seeds returns the seeds of one profile, ascending from start; all seeds if the name is empty, none if the
// profile does not exist.
func Seeds(profile string, start uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		known := profile == "" || slices.ContainsFunc(profiles(), isNamed(profile))
		for seed := start; known; seed++ {
			if (profile == "" || isNamed(profile)(profileOf(seed))) && !yield(seed) {
				return
			}
		}
	}
}

// A Report is the result of a simulation.
type Report struct {
	Seed uint64
	// Profile names the kind of faults of the seed.
	Profile string
	// Steps is the number of steps, including the steps of the recovery.
	Steps int
	// Hash is the hash of the trace: two runs of one seed have the same, except in real time.
	Hash string
	// Counts is how often each kind of event happened.
	Counts map[string]int
	// Violation is the first violated invariant; nil if there is none.
	Violation *Violation
	// Trace is every line of the history.
	Trace []string
}

// A Violation is a failed invariant.
type Violation struct {
	Seed      uint64
	Profile   string
	Step      int
	Invariant string
	Detail    string
	// RealTime: the seed does not reproduce this history.
	RealTime bool
	// Last are the last lines of the trace.
	Last []string
}

// tail is the number of trace lines in a violation.
const tail = 50

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d (%s), step %d: %s: %s\n%s\n%s",
		v.Seed, v.Profile, v.Step, v.Invariant, v.Detail, v.replay(), strings.Join(v.Last, "\n"))
}

// replay returns the command that reproduces the violation.
func (v *Violation) replay() string {
	if v.RealTime {
		return fmt.Sprintf("A history in real time does not replay exactly: the trace is all there is of this one. "+
			"Others of its kind: go test ./isrtest/simulator -run 'TestRealTime$' -seed %d -v", v.Seed)
	}
	return fmt.Sprintf("replay: go test ./isrtest/simulator -run 'TestSimulation$' -seed %d -v", v.Seed)
}

// Run simulates one seed. It never fails t, which it needs for its bubble: violations are in the report.
// It may run in several goroutines at once, each with its own t.
func Run(t *testing.T, cfg Config) Report {
	t.Helper()
	if cfg.Steps == 0 {
		cfg.Steps = DefaultSteps
	}
	outside := newOutside(cfg.Engine)
	defer outside.close()
	var report Report
	synctest.Test(t, func(*testing.T) { report = newWorld(cfg, virtual(cfg.Steps), outside).run() })
	return report
}

// RunInRealTime is Run outside a synctest bubble: in real time, with the real scheduling of goroutines, and
// each run of a seed has another history. A run takes about half a minute, mostly waiting, so many may run
// at once; it takes some minutes if the recovery fails. RunInRealTime is safe for concurrent use if the
// engine is.
func RunInRealTime(cfg Config) Report {
	outside := newOutside(nil) // the engine is called as any other
	defer outside.close()
	return newWorld(cfg, realTime(), outside).run()
}
