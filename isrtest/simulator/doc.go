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
// # Real time
//
// [RunInRealTime] drives the same world without a bubble, fifteen times as fast:
// with leases of two to three seconds and windows of one to four, a world of a
// quarter of a minute sees what one of some minutes does in virtual time. The gate
// stays, and calls are carried out one at a time, so that the table can be read
// after each. But nobody waits until all goroutines are blocked: they go on as they
// are scheduled, and the driver looks at what they have seen by the time at which it
// carries out the next call. So a seed decides what the driver draws, and nothing
// else. Goroutines meet that virtual time keeps apart, as visitors and those who ask
// for a regeneration of the same page. All invariants are held, but:
//
//   - Requests made after the end of a lease: those less than a second after it
//     count as made before, since a node's look at its clock and its call at the
//     gate are not one instant.
//   - What follows from a hard purge that a process has read: not in the second
//     after that, in which some of its goroutines may not have heard of it.
//   - A lease that is called lost and is not: only where LOCK has not changed since
//     the process asked.
//   - The promises of worlds without faults, one render per expiry and the page for
//     everybody, and that all nodes know of a rollback after a poll: only for as long
//     as this machine was never slow, see world.noteDelays.
//   - Origins that answer with an empty page: these are remembered for longer than
//     such a world lives.
//
// # Interleavings
//
// A check that never had a chance to fail proves nothing. [Interleavings] are what a
// run has to meet with; TestSimulation reports how often it did, and in how many
// worlds, and fails from 4,000 seeds on if one never occurred. A name that begins with
// "judged" counts how often that invariant was applied.
//
// # Seeded bugs
//
// TestBugs and TestMutants break one thing at a time, and demand that an invariant
// notices within 400 worlds of one kind. A [Bug] sits between two layers of a node; a
// mutant is an edit of package isr, compiled into a copy of these tests by go's -overlay.
// Two things are left to tests of their packages: that remembered failures are weighed
// (package isr), and echoes of versioned writes (package tabletheory), which a world
// makes only of leases.
//
// Stores in TypeScript and Python take no part in these worlds. Their own tests have
// fault plans (lost requests and replies, throttling, conflicts, echoes) for the same
// cases, on the same engine.
//
// # Running it
//
//	go test ./isrtest/simulator                                     200 seeds
//	go test ./isrtest/simulator -run 'TestSimulation$' -seeds 1e6   a long run
//	go test ./isrtest/simulator -run 'TestSimulation$' -kind log    worlds of one kind
//	go test ./isrtest/simulator -run 'TestSimulation$' -seed 42 -v  one history
//	go test ./isrtest/simulator -run 'TestRealTime$' -start 100     other worlds
//
// The last one, and whatever is to run on DynamoDB Local, finds that at the address
// in ISR_TEST_DYNAMODB. A failure prints its seed. Another operation of the fleet is a file with its
// step and its checks, a line in world.choices, a weight in the profiles, and a few
// bugs of its own in the tests.
package simulator
