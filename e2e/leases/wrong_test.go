//go:build linux || darwin

package leases

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// A script is a history written by hand.
type script []porcupine.Operation

// then adds a call that is made and answered in the seconds from one time to
// another, by a clock that showed the first.
func (s script) then(from, to int64, c call, got answer) script {
	o := porcupine.Operation{Input: asked{c, []moment{{from, from}}}, Output: got, Call: from, Return: to}
	if got.Said == saidNothing {
		o.Return = forever
	}
	return append(s[:len(s):len(s)], o)
}

// ok adds a call that succeeds within its second.
func (s script) ok(at int64, c call) script { return s.then(at, at, c, answer{Said: saidOK}) }

// saw adds a read.
func (s script) saw(at int64, l lock, m meta) script {
	return s.then(at, at, call{Verb: verbRead}, answer{Said: saidOK, Lock: l, Meta: m})
}

// recorded adds a look at request r.
func (s script) recorded(at int64, r request) script {
	return s.then(at, at, call{Verb: verbLookUp, Request: "r"}, answer{Said: saidOK, Request: r})
}

func acquires(lease string) call { return call{Verb: verbAcquire, Lease: lease, Seconds: 10} }

func claims(lease, hash string) call {
	return call{Verb: verbAcquire, Lease: lease, Seconds: 10, Request: "r", Hash: hash}
}

func holds(v verb, lease string) call { return call{Verb: v, Lease: lease, Seconds: 10} }

func holdsFor(v verb, lease string) call {
	return call{Verb: v, Lease: lease, Seconds: 10, Request: "r"}
}

func publishes(lease, request string, over meta, generation string) call {
	return call{Verb: verbPublish, Lease: lease, Request: request, Meta: over, Generation: generation}
}

func version(generation string, v int64) answer {
	return answer{Said: saidOK, Meta: meta{generation, v}}
}

var (
	nobody   lock
	nothing  meta
	lost     = answer{Said: saidLost}
	moved    = answer{Said: saidMoved}
	noAnswer = answer{Said: saidNothing}
)

// judges expects a verdict on each script.
func judges(t *testing.T, want bool, scripts map[string]script) {
	t.Helper()
	for name, s := range scripts {
		if got := porcupine.CheckOperations(model(), s); got != want {
			t.Errorf("%s: judged %v", name, got)
		}
	}
}

// A lease of ten seconds that is taken at 100 ends at 110.
func TestRightLeases(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	held := answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 110}}
	failed := call{Verb: verbBackOff, Lease: "a", Seconds: 5, Failures: 1}
	judges(t, true, map[string]script{
		"taken when it has ended":            a.ok(110, acquires("b")),
		"refused until then":                 a.then(109, 109, acquires("b"), held),
		"refreshed in time":                  a.ok(109, holds(verbRefresh, "a")).saw(109, lock{Owner: "a", Ends: 119}, nothing),
		"lost in time":                       a.then(110, 110, holds(verbRefresh, "a"), lost),
		"given back":                         a.ok(101, holds(verbRelease, "a")).ok(101, acquires("b")),
		"given back when another has it":     a.ok(110, acquires("b")).ok(111, holds(verbRelease, "a")).saw(111, lock{Owner: "b", Ends: 120}, nothing),
		"paused":                             a.ok(101, failed).saw(101, lock{Ends: 106, Failures: 1}, nothing),
		"the failures of a pause":            a.ok(101, failed).then(106, 106, acquires("b"), answer{Said: saidOK, Failures: 1}),
		"broken":                             a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 104}}).ok(102, acquires("b")),
		"two at once, one refused":           script{}.then(100, 109, acquires("a"), answer{Said: saidOK}).then(100, 109, acquires("b"), held),
		"taken, as turned out, by the dead":  script{}.then(100, 0, acquires("a"), noAnswer).then(105, 105, acquires("b"), held),
		"not taken by the dead":              script{}.then(100, 0, acquires("a"), noAnswer).ok(101, acquires("b")),
		"taken by the dead after another":    script{}.then(100, 0, acquires("a"), noAnswer).ok(101, acquires("b")).ok(102, holds(verbRelease, "b")).then(103, 103, acquires("c"), held),
		"refreshed by the dead":              a.then(109, 0, holds(verbRefresh, "a"), noAnswer).then(112, 112, acquires("b"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 119}}),
		"a page of its own":                  a.ok(101, call{Verb: verbAcquire, Page: 1, Lease: "b", Seconds: 10}),
		"failures unknown, by a lost answer": a.ok(101, failed).then(106, 106, acquires("b"), answer{Said: saidOK, Writes: 2}),
	})
}

func TestWrongLeases(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	b := a.ok(110, acquires("b"))
	failed := call{Verb: verbBackOff, Lease: "a", Seconds: 5, Failures: 1}
	judges(t, false, map[string]script{
		"two holders":                      a.ok(101, acquires("b")),
		"two holders, at once":             script{}.then(100, 109, acquires("a"), answer{Said: saidOK}).then(100, 109, acquires("b"), answer{Said: saidOK}),
		"taken a second early":             a.ok(109, acquires("b")),
		"refused when it had ended":        a.then(110, 110, acquires("b"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 110}}),
		"refused by nobody":                script{}.then(100, 100, acquires("b"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 110}}),
		"refused, and told a wrong end":    a.then(101, 101, acquires("b"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 111}}),
		"refreshed after its end":          a.ok(110, holds(verbRefresh, "a")),
		"refreshed when another has it":    b.ok(111, holds(verbRefresh, "a")),
		"lost before its end":              a.then(109, 109, holds(verbRefresh, "a"), lost),
		"a refresh that did nothing":       a.ok(105, holds(verbRefresh, "a")).saw(106, lock{Owner: "a", Ends: 110}, nothing),
		"another's given back":             b.ok(111, holds(verbRelease, "a")).saw(111, nobody, nothing),
		"kept, although given back":        a.ok(101, holds(verbRelease, "a")).saw(102, lock{Owner: "a", Ends: 110}, nothing),
		"refreshed, although given back":   a.ok(101, holds(verbRelease, "a")).ok(102, holds(verbRefresh, "a")),
		"another's paused":                 b.ok(111, failed).saw(111, lock{Ends: 116, Failures: 1}, nothing),
		"a pause that nobody keeps":        a.ok(101, failed).then(103, 103, acquires("b"), answer{Said: saidOK, Failures: 1}),
		"failures forgotten":               a.ok(101, failed).ok(106, acquires("b")),
		"broken, and refreshed":            a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}).ok(102, holds(verbRefresh, "a")),
		"broken, though it is another":     b.ok(111, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}),
		"not broken, though it is the one": a.then(101, 101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}, moved),
		"taken by the dead before it lived": a.then(105, 105, acquires("b"), answer{Said: saidHeld, Lock: lock{Owner: "c", Ends: 116}}).
			then(106, 0, acquires("c"), noAnswer),
		"a read from before": b.saw(112, lock{Owner: "a", Ends: 110}, nothing),
	})
}

func TestRightPublishes(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	one := a.then(101, 101, publishes("a", "", nothing, "g1"), version("g1", 7))
	b := one.ok(102, acquires("b"))
	g1, g2 := meta{"g1", 7}, meta{"g2", 8}
	judges(t, true, map[string]script{
		"published":                   one.saw(102, nobody, g1),
		"the next":                    b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 8)).saw(104, nobody, g2),
		"refused after the end":       a.then(110, 110, publishes("a", "", nothing, "g1"), lost),
		"refused over another":        b.then(103, 103, publishes("b", "", nothing, "g2"), moved),
		"rolled back":                 b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 8)).then(104, 104, call{Verb: verbRollback, Meta: g2, Generation: "g1"}, version("g1", 9)).saw(104, nobody, meta{"g1", 9}),
		"published by the dead":       a.then(101, 0, publishes("a", "", nothing, "g1"), noAnswer).saw(102, nobody, g1),
		"not published by the dead":   a.then(101, 0, publishes("a", "", nothing, "g1"), noAnswer).saw(102, lock{Owner: "a", Ends: 110}, nothing),
		"given up, with the lease":    a.then(101, 101, publishes("a", "", nothing, "g1"), answer{Said: saidNot}).saw(102, nobody, nothing),
		"given up, the lease is left": a.then(101, 101, publishes("a", "", nothing, "g1"), answer{Said: saidNot}).saw(102, lock{Owner: "a", Ends: 110}, nothing),
	})
}

func TestWrongPublishes(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	one := a.then(101, 101, publishes("a", "", nothing, "g1"), version("g1", 7))
	b := one.ok(102, acquires("b"))
	g1 := meta{"g1", 7}
	late := a.ok(110, acquires("b"))
	rolled := b.then(103, 103, call{Verb: verbRollback, Meta: g1, Generation: "g0"}, version("g0", 8))
	judges(t, false, map[string]script{
		"after the lease's end":             a.then(110, 110, publishes("a", "", nothing, "g1"), version("g1", 7)),
		"when another has the lease":        late.then(111, 111, publishes("a", "", nothing, "g1"), version("g1", 7)),
		"by a lease that was broken":        a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}).then(102, 102, publishes("a", "", nothing, "g1"), version("g1", 7)),
		"twice under one lease":             one.then(102, 102, publishes("a", "", g1, "g2"), version("g2", 8)),
		"over what it has not seen":         b.then(103, 103, publishes("b", "", nothing, "g2"), version("g2", 8)),
		"over a rollback":                   rolled.then(104, 104, publishes("b", "", g1, "g2"), version("g2", 8)),
		"a version again":                   b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 7)),
		"a version left out":                b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 9)),
		"acknowledged, and gone":            one.saw(102, nobody, nothing),
		"the lease stays":                   one.saw(102, lock{Owner: "a", Ends: 110}, g1),
		"refused for nothing":               a.then(101, 101, publishes("a", "", nothing, "g1"), lost),
		"refused as moved for nothing":      a.then(101, 101, publishes("a", "", nothing, "g1"), moved),
		"refused, and current":              a.then(110, 110, publishes("a", "", nothing, "g1"), lost).saw(111, nobody, g1),
		"did not happen, and current":       a.then(101, 101, publishes("a", "", nothing, "g1"), answer{Said: saidNot}).saw(102, nobody, g1),
		"current, then not, then current":   a.then(101, 0, publishes("a", "", nothing, "g1"), noAnswer).saw(102, nobody, g1).saw(103, nobody, nothing),
		"rolled back over another":          rolled.then(104, 104, call{Verb: verbRollback, Meta: g1, Generation: "g1"}, version("g1", 8)),
		"rolled back, and that had no sign": rolled.saw(104, lock{Owner: "b", Ends: 112}, g1),
	})
}

func TestRightRequests(t *testing.T) {
	a := script{}.ok(100, claims("a", "h"))
	began := request{Hash: "h", State: started, Until: 110}
	result := request{Hash: "h", State: completed, Generation: "g1", Body: "bodies/g1"}
	done := a.then(101, 101, publishes("a", "r", nothing, "g1"), version("g1", 7))
	again := func(s said, r request) answer { return answer{Said: s, Request: r} }
	judges(t, true, map[string]script{
		"begun":                        a.recorded(101, began),
		"in progress":                  a.then(101, 101, claims("b", "h"), again(saidInProgress, began)),
		"in progress, without a lease": a.ok(101, holdsFor(verbRelease, "a")).then(102, 102, claims("b", "h"), again(saidInProgress, began)),
		"refused by the lease":         script{}.ok(100, acquires("a")).then(101, 101, claims("b", "h"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 110}}).recorded(102, request{}),
		"completed":                    done.recorded(102, result).then(103, 103, claims("b", "h"), again(saidCompleted, result)),
		"other inputs":                 done.then(103, 103, claims("b", "x"), again(saidMismatch, result)),
		"kept up":                      a.ok(109, holdsFor(verbRefresh, "a")).recorded(110, request{Hash: "h", State: started, Until: 119}),
		"taken over":                   a.ok(110, claims("b", "h")).then(111, 111, publishes("b", "r", nothing, "g1"), version("g1", 7)).recorded(112, result),
		"failed, and made again":       a.ok(101, call{Verb: verbEnd, Lease: "a", Request: "r"}).ok(102, holdsFor(verbRelease, "a")).ok(103, claims("b", "h")),
		"ended by what was current":    a.ok(101, call{Verb: verbEnd, Lease: "a", Request: "r", Generation: "g1"}).recorded(102, result),
		"completed by the dead":        a.then(101, 0, publishes("a", "r", nothing, "g1"), noAnswer).recorded(102, result),
	})
}

func TestWrongRequests(t *testing.T) {
	a := script{}.ok(100, claims("a", "h"))
	began := request{Hash: "h", State: started, Until: 110}
	done := a.then(101, 101, publishes("a", "r", nothing, "g1"), version("g1", 7))
	free := a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}})
	over := a.ok(110, claims("b", "h"))
	again := func(s said, r request) answer { return answer{Said: s, Request: r} }
	judges(t, false, map[string]script{
		"two at it":                        free.ok(102, claims("b", "h")),
		"a second completion":              done.ok(102, claims("b", "h")).then(103, 103, publishes("b", "r", meta{"g1", 7}, "g2"), version("g2", 8)),
		"a second completion, by its end":  done.ok(102, call{Verb: verbEnd, Lease: "a", Request: "r", Generation: "g2"}).recorded(103, request{Hash: "h", State: completed, Generation: "g2", Body: "bodies/g2"}),
		"another result":                   done.recorded(102, request{Hash: "h", State: completed, Generation: "g2", Body: "bodies/g2"}),
		"the body of another":              done.recorded(102, request{Hash: "h", State: completed, Generation: "g1", Body: "bodies/g2"}),
		"other inputs, carried out":        a.ok(110, claims("b", "x")),
		"taken over too early":             free.ok(109, claims("b", "h")),
		"in progress for ever":             free.then(110, 110, claims("b", "h"), again(saidInProgress, began)),
		"published after it is taken over": over.ok(111, holds(verbRelease, "b")).then(111, 111, publishes("a", "r", nothing, "g1"), version("g1", 7)),
		"ended by who lost it":             over.ok(111, call{Verb: verbEnd, Lease: "a", Request: "r"}).recorded(112, request{Hash: "h", State: failed}),
		"published, and not completed":     done.recorded(102, began),
		"begun without the lease":          script{}.ok(100, acquires("a")).then(101, 101, claims("b", "h"), answer{Said: saidHeld, Lock: lock{Owner: "a", Ends: 110}}).recorded(102, request{Hash: "h", State: started, Until: 111}),
		"the lease without its beginning":  a.recorded(101, request{}),
		"completed, and forgotten":         done.then(102, 102, claims("b", "h"), again(saidInProgress, began)),
		"not kept up with the lease":       a.ok(109, holdsFor(verbRefresh, "a")).recorded(110, began),
	})
}
