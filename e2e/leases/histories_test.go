//go:build linux || darwin

package leases

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// A script is a history written by hand.
type script []porcupine.Operation

// then adds a call that begins at second from, returns at second to, and reads from on
// the clock.
func (s script) then(from, to int64, c call, got answer) script {
	o := porcupine.Operation{Input: modelInput{c, []moment{{from, from}}}, Output: got, Call: from, Return: to}
	if got.Outcome == outcomeUnknown {
		o.Return = forever
	}
	return append(s[:len(s):len(s)], o)
}

// ok adds a call that succeeds within its second.
func (s script) ok(at int64, c call) script { return s.then(at, at, c, answer{Outcome: outcomeOK}) }

// saw adds a read.
func (s script) saw(at int64, l lock, m meta) script {
	return s.then(at, at, call{Verb: verbRead}, answer{Outcome: outcomeOK, Lock: l, Meta: m})
}

// recorded adds a lookup of the record of request r.
func (s script) recorded(at int64, r request) script {
	return s.then(at, at, call{Verb: verbLookUp, Request: "r"}, answer{Outcome: outcomeOK, Request: r})
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
	return answer{Outcome: outcomeOK, Meta: meta{generation, v}}
}

var (
	unlocked    lock
	unpublished meta
	lost        = answer{Outcome: outcomeLost}
	moved       = answer{Outcome: outcomeMoved}
	noAnswer    = answer{Outcome: outcomeUnknown}
)

// expectVerdicts expects the model to accept (want) or reject each script.
func expectVerdicts(t *testing.T, want bool, scripts map[string]script) {
	t.Helper()
	for name, s := range scripts {
		if got := porcupine.CheckOperations(model(), s); got != want {
			t.Errorf("%s: linearizable = %v, want %v", name, got, want)
		}
	}
}

// The leases last ten seconds: one acquired at 100 expires at 110.
func TestModelAcceptsLeaseHistories(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	held := answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 110}}
	failed := call{Verb: verbBackOff, Lease: "a", Seconds: 5, Failures: 1}
	expectVerdicts(t, true, map[string]script{
		"acquired after expiry":                    a.ok(110, acquires("b")),
		"refused before expiry":                    a.then(109, 109, acquires("b"), held),
		"refreshed before expiry":                  a.ok(109, holds(verbRefresh, "a")).saw(109, lock{Owner: "a", Ends: 119}, unpublished),
		"lost at expiry":                           a.then(110, 110, holds(verbRefresh, "a"), lost),
		"released":                                 a.ok(101, holds(verbRelease, "a")).ok(101, acquires("b")),
		"released after takeover":                  a.ok(110, acquires("b")).ok(111, holds(verbRelease, "a")).saw(111, lock{Owner: "b", Ends: 120}, unpublished),
		"backed off":                               a.ok(101, failed).saw(101, lock{Ends: 106, Failures: 1}, unpublished),
		"failure count after a back-off":           a.ok(101, failed).then(106, 106, acquires("b"), answer{Outcome: outcomeOK, Failures: 1}),
		"broken":                                   a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 104}}).ok(102, acquires("b")),
		"two concurrent, one refused":              script{}.then(100, 109, acquires("a"), answer{Outcome: outcomeOK}).then(100, 109, acquires("b"), held),
		"unanswered acquire took effect":           script{}.then(100, 0, acquires("a"), noAnswer).then(105, 105, acquires("b"), held),
		"unanswered acquire had no effect":         script{}.then(100, 0, acquires("a"), noAnswer).ok(101, acquires("b")),
		"unanswered acquire took effect late":      script{}.then(100, 0, acquires("a"), noAnswer).ok(101, acquires("b")).ok(102, holds(verbRelease, "b")).then(103, 103, acquires("c"), held),
		"unanswered refresh took effect":           a.then(109, 0, holds(verbRefresh, "a"), noAnswer).then(112, 112, acquires("b"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 119}}),
		"pages are independent":                    a.ok(101, call{Verb: verbAcquire, Page: 1, Lease: "b", Seconds: 10}),
		"failure count unknown after a lost reply": a.ok(101, failed).then(106, 106, acquires("b"), answer{Outcome: outcomeOK, Writes: 2}),
	})
}

func TestModelRejectsLeaseHistories(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	b := a.ok(110, acquires("b"))
	failed := call{Verb: verbBackOff, Lease: "a", Seconds: 5, Failures: 1}
	expectVerdicts(t, false, map[string]script{
		"two holders":                        a.ok(101, acquires("b")),
		"two holders, concurrently":          script{}.then(100, 109, acquires("a"), answer{Outcome: outcomeOK}).then(100, 109, acquires("b"), answer{Outcome: outcomeOK}),
		"acquired a second before expiry":    a.ok(109, acquires("b")),
		"refused after expiry":               a.then(110, 110, acquires("b"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 110}}),
		"refused without a holder":           script{}.then(100, 100, acquires("b"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 110}}),
		"refused with a wrong expiry":        a.then(101, 101, acquires("b"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 111}}),
		"refreshed after expiry":             a.ok(110, holds(verbRefresh, "a")),
		"refreshed after takeover":           b.ok(111, holds(verbRefresh, "a")),
		"lost before expiry":                 a.then(109, 109, holds(verbRefresh, "a"), lost),
		"refresh without effect":             a.ok(105, holds(verbRefresh, "a")).saw(106, lock{Owner: "a", Ends: 110}, unpublished),
		"released another's lease":           b.ok(111, holds(verbRelease, "a")).saw(111, unlocked, unpublished),
		"still held after release":           a.ok(101, holds(verbRelease, "a")).saw(102, lock{Owner: "a", Ends: 110}, unpublished),
		"refreshed after release":            a.ok(101, holds(verbRelease, "a")).ok(102, holds(verbRefresh, "a")),
		"back-off replaced another's lease":  b.ok(111, failed).saw(111, lock{Ends: 116, Failures: 1}, unpublished),
		"acquired during a back-off":         a.ok(101, failed).then(103, 103, acquires("b"), answer{Outcome: outcomeOK, Failures: 1}),
		"failure count lost":                 a.ok(101, failed).ok(106, acquires("b")),
		"refreshed after a break":            a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}).ok(102, holds(verbRefresh, "a")),
		"break of another lease succeeded":   b.ok(111, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}),
		"break of the current lease refused": a.then(101, 101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}, moved),
		"effect before its call": a.then(105, 105, acquires("b"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "c", Ends: 116}}).
			then(106, 0, acquires("c"), noAnswer),
		"stale read": b.saw(112, lock{Owner: "a", Ends: 110}, unpublished),
	})
}

func TestModelAcceptsPublishHistories(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	one := a.then(101, 101, publishes("a", "", unpublished, "g1"), version("g1", 7))
	b := one.ok(102, acquires("b"))
	g1, g2 := meta{"g1", 7}, meta{"g2", 8}
	expectVerdicts(t, true, map[string]script{
		"published":                        one.saw(102, unlocked, g1),
		"published again":                  b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 8)).saw(104, unlocked, g2),
		"refused after expiry":             a.then(110, 110, publishes("a", "", unpublished, "g1"), lost),
		"refused over a newer generation":  b.then(103, 103, publishes("b", "", unpublished, "g2"), moved),
		"rolled back":                      b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 8)).then(104, 104, call{Verb: verbRollback, Meta: g2, Generation: "g1"}, version("g1", 9)).saw(104, unlocked, meta{"g1", 9}),
		"unanswered publish took effect":   a.then(101, 0, publishes("a", "", unpublished, "g1"), noAnswer).saw(102, unlocked, g1),
		"unanswered publish had no effect": a.then(101, 0, publishes("a", "", unpublished, "g1"), noAnswer).saw(102, lock{Owner: "a", Ends: 110}, unpublished),
		"not committed, lease released":    a.then(101, 101, publishes("a", "", unpublished, "g1"), answer{Outcome: outcomeNotCommitted}).saw(102, unlocked, unpublished),
		"not committed, lease still held":  a.then(101, 101, publishes("a", "", unpublished, "g1"), answer{Outcome: outcomeNotCommitted}).saw(102, lock{Owner: "a", Ends: 110}, unpublished),
	})
}

func TestModelRejectsPublishHistories(t *testing.T) {
	a := script{}.ok(100, acquires("a"))
	one := a.then(101, 101, publishes("a", "", unpublished, "g1"), version("g1", 7))
	b := one.ok(102, acquires("b"))
	g1 := meta{"g1", 7}
	late := a.ok(110, acquires("b"))
	rolled := b.then(103, 103, call{Verb: verbRollback, Meta: g1, Generation: "g0"}, version("g0", 8))
	expectVerdicts(t, false, map[string]script{
		"after expiry":                        a.then(110, 110, publishes("a", "", unpublished, "g1"), version("g1", 7)),
		"after takeover":                      late.then(111, 111, publishes("a", "", unpublished, "g1"), version("g1", 7)),
		"under a broken lease":                a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}}).then(102, 102, publishes("a", "", unpublished, "g1"), version("g1", 7)),
		"twice under one lease":               one.then(102, 102, publishes("a", "", g1, "g2"), version("g2", 8)),
		"over a generation that was not read": b.then(103, 103, publishes("b", "", unpublished, "g2"), version("g2", 8)),
		"over a rollback":                     rolled.then(104, 104, publishes("b", "", g1, "g2"), version("g2", 8)),
		"version reused":                      b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 7)),
		"version skipped":                     b.then(103, 103, publishes("b", "", g1, "g2"), version("g2", 9)),
		"acknowledged, then lost":             one.saw(102, unlocked, unpublished),
		"lease not released":                  one.saw(102, lock{Owner: "a", Ends: 110}, g1),
		"refused as lost without reason":      a.then(101, 101, publishes("a", "", unpublished, "g1"), lost),
		"refused as moved without reason":     a.then(101, 101, publishes("a", "", unpublished, "g1"), moved),
		"refused, but current":                a.then(110, 110, publishes("a", "", unpublished, "g1"), lost).saw(111, unlocked, g1),
		"not committed, but current":          a.then(101, 101, publishes("a", "", unpublished, "g1"), answer{Outcome: outcomeNotCommitted}).saw(102, unlocked, g1),
		"current, then not, then current":     a.then(101, 0, publishes("a", "", unpublished, "g1"), noAnswer).saw(102, unlocked, g1).saw(103, unlocked, unpublished),
		"rolled back over a newer version":    rolled.then(104, 104, call{Verb: verbRollback, Meta: g1, Generation: "g1"}, version("g1", 8)),
		"rollback without effect":             rolled.saw(104, lock{Owner: "b", Ends: 112}, g1),
	})
}

func TestModelAcceptsRequestHistories(t *testing.T) {
	a := script{}.ok(100, claims("a", "h"))
	began := request{Hash: "h", State: started, Until: 110}
	result := request{Hash: "h", State: completed, Generation: "g1", Body: "bodies/g1"}
	done := a.then(101, 101, publishes("a", "r", unpublished, "g1"), version("g1", 7))
	again := func(s outcome, r request) answer { return answer{Outcome: s, Request: r} }
	expectVerdicts(t, true, map[string]script{
		"started":                             a.recorded(101, began),
		"in progress":                         a.then(101, 101, claims("b", "h"), again(outcomeInProgress, began)),
		"in progress, without a lease":        a.ok(101, holdsFor(verbRelease, "a")).then(102, 102, claims("b", "h"), again(outcomeInProgress, began)),
		"refused by a held lease":             script{}.ok(100, acquires("a")).then(101, 101, claims("b", "h"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 110}}).recorded(102, request{}),
		"completed":                           done.recorded(102, result).then(103, 103, claims("b", "h"), again(outcomeCompleted, result)),
		"mismatched inputs":                   done.then(103, 103, claims("b", "x"), again(outcomeMismatch, result)),
		"refreshed with the lease":            a.ok(109, holdsFor(verbRefresh, "a")).recorded(110, request{Hash: "h", State: started, Until: 119}),
		"taken over after expiry":             a.ok(110, claims("b", "h")).then(111, 111, publishes("b", "r", unpublished, "g1"), version("g1", 7)).recorded(112, result),
		"retried after failure":               a.ok(101, call{Verb: verbEnd, Lease: "a", Request: "r"}).ok(102, holdsFor(verbRelease, "a")).ok(103, claims("b", "h")),
		"completed by the current generation": a.ok(101, call{Verb: verbEnd, Lease: "a", Request: "r", Generation: "g1"}).recorded(102, result),
		"unanswered publish completed it":     a.then(101, 0, publishes("a", "r", unpublished, "g1"), noAnswer).recorded(102, result),
	})
}

func TestModelRejectsRequestHistories(t *testing.T) {
	a := script{}.ok(100, claims("a", "h"))
	began := request{Hash: "h", State: started, Until: 110}
	done := a.then(101, 101, publishes("a", "r", unpublished, "g1"), version("g1", 7))
	free := a.ok(101, call{Verb: verbBreak, Lock: lock{Owner: "a", Ends: 110}})
	over := a.ok(110, claims("b", "h"))
	again := func(s outcome, r request) answer { return answer{Outcome: s, Request: r} }
	expectVerdicts(t, false, map[string]script{
		"two holders":                     free.ok(102, claims("b", "h")),
		"completed twice":                 done.ok(102, claims("b", "h")).then(103, 103, publishes("b", "r", meta{"g1", 7}, "g2"), version("g2", 8)),
		"completed twice, by end":         done.ok(102, call{Verb: verbEnd, Lease: "a", Request: "r", Generation: "g2"}).recorded(103, request{Hash: "h", State: completed, Generation: "g2", Body: "bodies/g2"}),
		"wrong generation":                done.recorded(102, request{Hash: "h", State: completed, Generation: "g2", Body: "bodies/g2"}),
		"wrong body":                      done.recorded(102, request{Hash: "h", State: completed, Generation: "g1", Body: "bodies/g2"}),
		"executed with mismatched inputs": a.ok(110, claims("b", "x")),
		"taken over before expiry":        free.ok(109, claims("b", "h")),
		"in progress after expiry":        free.then(110, 110, claims("b", "h"), again(outcomeInProgress, began)),
		"published after takeover":        over.ok(111, holds(verbRelease, "b")).then(111, 111, publishes("a", "r", unpublished, "g1"), version("g1", 7)),
		"ended by a former holder":        over.ok(111, call{Verb: verbEnd, Lease: "a", Request: "r"}).recorded(112, request{Hash: "h", State: failed}),
		"published, but not completed":    done.recorded(102, began),
		"started without the lease":       script{}.ok(100, acquires("a")).then(101, 101, claims("b", "h"), answer{Outcome: outcomeHeld, Lock: lock{Owner: "a", Ends: 110}}).recorded(102, request{Hash: "h", State: started, Until: 111}),
		"acquired, but not started":       a.recorded(101, request{}),
		"completed, then in progress":     done.then(102, 102, claims("b", "h"), again(outcomeInProgress, began)),
		"not refreshed with the lease":    a.ok(109, holdsFor(verbRefresh, "a")).recorded(110, began),
	})
}
