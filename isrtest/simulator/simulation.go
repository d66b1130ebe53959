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

// Bounds of every world, in virtual time: in real time the durations are shorter.
const (
	// MaxSkew is how far a node's clock may be off.
	MaxSkew = 30 * time.Second
	// LeaseTime is how long a lease lasts without a sign of life.
	LeaseTime = 30 * time.Second
	// Linger is how long after its caller gave up, or died, a request may still
	// be carried out. Connections that are closed in mid-request do that.
	Linger = 2 * time.Second
	// DefaultSteps is the length of a simulation, without its end.
	DefaultSteps = 300
)

// RealTime is the length of a simulation in real time, without its end, which takes
// a few seconds more.
const RealTime = 15 * time.Second

// An Engine is where a world keeps its table.
type Engine interface {
	dynamostore.API
	dynamostore.TableAPI
}

// A Config says what to simulate.
type Config struct {
	// Seed decides everything; in real time, what the driver does.
	Seed uint64
	// Steps is how many the driver takes before the faults stop. Zero means
	// DefaultSteps. In real time they stop after RealTime instead.
	Steps int
	// Engine is the engine that the world makes a table of its own on, and
	// leaves it there; it is called from outside the bubble, so that it may
	// do I/O. Nil means a localdynamo in memory, which is gone afterwards.
	Engine Engine
	// Bug is what to break. Nil breaks nothing.
	Bug *Bug
}

// A Bug breaks one promise on the way between two layers of every node, to see
// whether an invariant notices. Fields that are nil change nothing.
type Bug struct {
	// Name says what is broken, for people.
	Name string
	// Profile names the kind of misfortune that shows it. Empty: any.
	Profile string
	// API changes the requests of a node before they leave it.
	API func(dynamostore.API) dynamostore.API
	// Meta changes what the cache asks of its store, and is answered.
	Meta func(store.MetaStore, store.BodyStore) store.MetaStore
	// Bodies changes what becomes of bodies.
	Bodies func(store.BodyStore) store.BodyStore
	// Collect takes the place of gc.Collect.
	Collect func(context.Context, gc.Store, store.BodyStore, gc.CollectOptions) (gc.Collected, error)
}

// Seeds are the seeds of one kind of misfortune, ascending from start on; all of them if
// it has no name. There are none if no kind has that name.
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

// A Report is what came of a simulation.
type Report struct {
	Seed uint64
	// Profile names the kind of misfortune that the seed stands for.
	Profile string
	// Steps is how many the driver took, those of the end among them.
	Steps int
	// Hash is that of the whole trace: two runs of one seed agree in it, but for
	// those in real time.
	Hash string
	// Counts says how often each kind of event happened.
	Counts map[string]int
	// Violation is what went wrong, nil if nothing did.
	Violation *Violation
	// Trace is every line of the history.
	Trace []string
}

// A Violation is a promise that was not kept.
type Violation struct {
	Seed      uint64
	Profile   string
	Step      int
	Invariant string
	Detail    string
	// RealTime: the seed does not bring this history back.
	RealTime bool
	// Last are the last lines of the trace.
	Last []string
}

// tail is how many lines of the trace a violation shows.
const tail = 50

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d (%s), step %d: %s: %s\n%s\n%s",
		v.Seed, v.Profile, v.Step, v.Invariant, v.Detail, v.replay(), strings.Join(v.Last, "\n"))
}

// replay says how to see it again.
func (v *Violation) replay() string {
	if v.RealTime {
		return fmt.Sprintf("A history in real time does not replay exactly: the trace is all there is of this one. "+
			"Others of its kind: go test ./isrtest/simulator -run 'TestRealTime$' -seed %d -v", v.Seed)
	}
	return fmt.Sprintf("replay: go test ./isrtest/simulator -run 'TestSimulation$' -seed %d -v", v.Seed)
}

// Run simulates one seed. It never fails t, which it needs for its bubble: what
// was violated is in the report. Runs of several goroutines, each with a t of
// its own, do not disturb each other.
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

// RunInRealTime is Run without a bubble: time passes by itself, goroutines run as
// they are scheduled, and the same seed makes another history each time. It takes
// about half a minute, and up to some minutes where recovery fails, most of it
// waiting, so that many may run at once. It is safe for concurrent use if the engine
// is.
func RunInRealTime(cfg Config) Report {
	outside := newOutside(nil) // the engine is called as any other
	defer outside.close()
	return newWorld(cfg, realTime(), outside).run()
}
