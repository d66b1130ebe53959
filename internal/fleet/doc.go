// Package fleet makes the nodes of a fleet known to each other: which processes share the table, how far
// each has applied the log, at which addresses they reach each other, and which of these answer.
//
// The problem: a purge is complete when all live nodes have applied it, so the one that makes it
// must know which these are. A node adapts the interval of its polls to the number of nodes, so
// that they do not throttle each other. And nodes that reach each other directly learn of changes
// and get bodies sooner than from the table and the bucket.
//
// The model:
//
//	Members ── at intervals, and at once if asked ──► NODE# row: name, address, applied sequence
//	   │                                                  │
//	   └── counts them, less often the more there are ◄───┘
//	              │
//	              ▼
//	         Peers: the addresses of the others, with a circuit breaker each
//
// Guarantees:
//   - A row is a claim about the past, by a process about itself. Nothing that is served depends on
//     one: a node that hears nothing, or hears lies, serves what the table has.
//   - A process is listed for a minute after its last announcement; a process that stops in order
//     withdraws its row.
//   - No address is used that its process has not announced in the table.
//   - A peer that fails three times in a row, or sends wrong content, is not asked for five seconds
//     to a minute, with exponential backoff; one request then probes it.
package fleet

// The files:
//
//	members.go  which processes live, their versions, and how far each has read the log
//	peers.go    the addresses of peers, and which are asked for a body
//	health.go   the circuit breakers of peers
