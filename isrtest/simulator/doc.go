// Package simulator runs a fleet of caches on one table, injects faults, and checks
// the invariants of the fleet after every step.
//
// # Problem
//
// The invariants of a fleet (one regeneration per expiry, no lost page, no mixture of
// two generations) must hold in every order in which requests of its nodes reach the
// table, and for every lost reply. Tests that are written by hand cover only a few of
// these orders.
//
// # Model
//
// A world has real parts: isr.Cache, dynamostore.Store and the embedded engine, inside
// a bubble of testing/synctest, where time passes only when all goroutines are
// blocked. Every call of the table and of the bodies stops at a gate:
//
//	visitor ─► isr.Cache ─► dynamostore ─► gate ─┐ the driver picks one, by
//	           node n1, its own clock            │ the seed, and its fate
//	visitor ─► isr.Cache ─► dynamostore ─► gate ─┼──────────► localdynamo
//	           node n2                           │ the changed rows are read raw,
//	external writers, purges ────────────────────┘ and every invariant checked
//
// When all goroutines are blocked, the driver chooses the next step by the seed: it
// lets a call proceed, with or without a fault; lets time pass; sends a visitor; forces
// a regeneration; lets another service write; purges; crashes, freezes or thaws a node.
// Steps run one at a time, each at its own instant, so the same seed produces the same
// history, down to the bytes of its trace.
//
// # Transactions that are seen in part
//
// In worlds of the profile "torn" reads show some rows of a committed transaction as they
// were before, for up to four seconds, as DynamoDB may (see dynamostore). Its caller gets no
// reply before they show all of it; other writes and transactions of these rows are refused
// because of a conflict. Two invariants are weaker there: a change counts as of the moment from
// which all reads show it, and a page may be rendered once in vain by a process that has read
// META from before a publish.
//
// # Promises under clock skew
//
// Clocks of nodes are off by up to [MaxSkew], either way, and leases last [LeaseTime],
// so a node may take a lease that its holder still considers valid. These invariants
// hold nevertheless, and are checked:
//
//   - A lease is taken only if it had expired by the taker's clock when it sent the
//     request, and refreshed only if it had not by its holder's.
//   - META is changed only by the holder of the token that is on LOCK at that moment,
//     and only by a request sent before the lease's end by its own clock; the same
//     step releases LOCK. One publish per token.
//   - A generation replaces exactly the one that was current when its render began.
//
// It does not hold that at most one node renders: if clocks differ by more than two
// thirds of a lease, two may, and the fence refuses one publish.
//
// A request whose caller is gone may still arrive, up to [Linger] later.
//
// # Purges
//
// Nodes purge by isr.Cache.Purge: pages by key, tag and prefix, a tenant, the site; other
// writers purge pages and tags by the specification. These invariants hold:
//
//   - A purge with a receipt is never lost: SEQ is at least its receipt, and so are the
//     sequences of its PURGE and MARK# rows, until the end of the world. All of its rows,
//     and the row of the log that names them, are written in one step, with one sequence; a
//     soft purge leaves hard_seq as it was.
//   - A purge that was reported as failed, other than with an unknown outcome, was not made,
//     and never will be.
//   - A process that knows a purge, because it has read it in the log or among the marks at
//     its start, or because its own call has returned, serves nothing that it covers as
//     fresh to visitors who come then, and after a hard purge nothing at all. Others do so
//     after the staleness bound, unless they say that they are cut off.
//   - A visitor does not get, as new, a page whose render began before such a purge.
//   - A generation whose render began before a purge is born covered by it.
//   - After an unsafe request was answered, no visitor of the same process gets what was rendered
//     before its origin answered it, unless its purge failed or the page was pinned; if the page
//     was purged shortly before, the next purge may be put off by a minute.
//   - A visitor with a receipt gets nothing, from any node, that a purge up to the receipt
//     covers. A receipt is refused if and only if the log does not reach it.
//
// # Real time
//
// [RunInRealTime] drives the same world without a bubble, fifteen times as fast: with
// leases of two to three seconds and windows of one to four, a world of 15 seconds sees
// as much as one of a few minutes in virtual time. The gate stays, and calls are executed
// one at a time, so that the table can be read after each. But goroutines do not wait for
// each other: they run as they are scheduled, and the driver processes their events
// before it executes the next call. So a seed determines only what the driver draws.
// Goroutines can meet that virtual time separates, such as visitors and forced
// regenerations of the same page. All invariants are checked, with these exceptions:
//
//   - Requests sent after the end of a lease: less than a second late counts as in
//     time, since a node reads its clock and reaches the gate at different instants.
//   - The effect of a hard purge that a process has read: not in the second after it,
//     in which some of its goroutines may not know of it.
//   - A lease that is reported lost but is not: only if LOCK has not changed since the
//     process sent the request.
//   - The invariants of worlds without faults (one render per expiry, every visitor gets
//     the page), and that all nodes know of a rollback after a poll: only while this
//     machine has never been slow, see world.noteDelays.
//   - Origins that answer with an empty page: caches remember these for longer than
//     such a world lives.
//
// # Interleavings
//
// A check that could never fail proves nothing. [Interleavings] are the events that a run
// must include. TestSimulation reports how often each occurred, and in how many worlds;
// from 4,000 seeds on it fails if one never did. A name that begins with "judged" counts
// how often that invariant was applied.
//
// # Seeded bugs
//
// TestBugs and TestMutants break one thing at a time and require that an invariant
// detects it within 400 worlds of one profile. A [Bug] sits between two layers of a node;
// a mutant is an edit of package isr, compiled into a copy of these tests with go's
// -overlay. Two subjects are tested in their packages instead: the weight
// of negative cache entries (package isr), and echoes of versioned writes (package
// tabletheory), which a world makes only of leases.
//
// Stores in TypeScript and Python do not take part in these worlds. Their own tests have
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
// TestRealTime, and other tests on DynamoDB Local, need its address in ISR_TEST_DYNAMODB.
// A failure prints its seed. To add an operation of the fleet, write a file with its step
// and its checks, and add a line to world.choices, a weight to the profiles, and a few
// seeded bugs to the tests.
package simulator
