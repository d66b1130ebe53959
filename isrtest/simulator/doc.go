// Package simulator runs a fleet of caches on one table through every kind of
// misfortune, and checks after every step that the promises hold.
//
// # Problem
//
// What a fleet promises (one regeneration per expiry, no page lost, none mixed
// of two generations) has to hold in every order in which the requests of its
// nodes can reach the table, with every reply that can be lost between. No test
// that is written by hand comes by more than a few of these orders.
//
// # Model
//
// A world has real parts: isr.Cache, dynamostore.Store and the embedded engine,
// inside a bubble of testing/synctest, where time passes only when everybody
// waits. Every call of the table and of the bodies stops at a gate:
//
//	visitor ─► isr.Cache ─► dynamostore ─► gate ─┐ the driver picks one, by
//	           node n1, its own clock            │ the seed, and its fate
//	visitor ─► isr.Cache ─► dynamostore ─► gate ─┼──────────► localdynamo
//	           node n2                           │ what it changed is read raw,
//	external writers, purges ────────────────────┘ and every invariant checked
//
// When all goroutines are blocked the driver chooses the next step by the seed:
// it lets a call through, with one of the faults or none; lets time pass; sends
// a visitor; asks for a regeneration; lets another service write; purges;
// crashes, freezes or thaws a node. There is one step at a time and each has an
// instant of its own, so that the same seed gives the same history, to the byte
// of its trace.
//
// # What is promised under skewed clocks
//
// Clocks of nodes are up to [MaxSkew] off, either way, and leases last
// [LeaseTime], so that a node may take a lease that its holder still believes
// in. What holds all the same, and is checked:
//
//   - A lease is taken only if it had ended by the taker's own clock when it
//     asked, and refreshed only if it had not by its holder's.
//   - META is changed only by the holder of the token that is on LOCK at that
//     very moment, and only by a request made before the lease's end by its
//     own clock; LOCK is given up in the same step. One token, one publish.
//   - A generation replaces exactly what was current when its rendering began.
//
// What does not hold is that at most one node renders: with clocks that differ
// by more than two thirds of a lease, two may, and the fence refuses one.
//
// A request whose caller is gone may still arrive, up to [Linger] later.
//
// # Running it
//
//	go test ./isrtest/simulator                                     200 seeds
//	go test ./isrtest/simulator -run 'TestSimulation$' -seeds 1e6   a long run
//	go test ./isrtest/simulator -run 'TestSimulation$' -seed 42 -v  one history
//
// A failure prints its seed. Another operation of the fleet is a file with its
// step and its checks, a line in world.choices, a weight in the profiles, and a few
// bugs of its own in the tests.
package simulator
