// Package changelog follows the log of the table, by which a process learns of what others have
// changed: purges, rollbacks and pins.
//
// The problem: pages are served from memory, without asking the table. A process must learn of each
// change within a known time; must notice that it has missed one, because it was frozen, its machine
// slept, a row has expired or the table was replaced; and must not serve old pages for ever while
// the log cannot be read.
//
// The model: SEQ is the sequence of the newest row, and each row has the next one.
//
//	SEQ ──► newest rows of LOG, Reset ──► cursor ──► LOG after the cursor ──► Apply ──► cursor
//	 ▲                                                   │ a gap, an unreadable row, a trimmed log,
//	 └───────────────────────────────────────────────────┘ too long without a poll: begin again
//
// The age of the last successful poll decides what may be served:
//
//	hit ──► the last poll, or the read of the page and its marks, began within the bound ──► serve
//	  └───► late: all late requests wait for one poll (Await), for at most StoreTimeout
//	            ├──► it succeeded: look into memory again
//	            └──► the log cannot be read: cut off; after MaxBlind, blind
//
// Until a process has read SEQ it has no log to follow: a page that was read before may be served
// for the bound, and is then read again.
//
// Guarantees:
//   - Every change is applied once and in order, or Reset is called.
//   - [Follower.Applied] never promises more than has taken effect: a process that announces that it has
//     applied a sequence knows the marks of that sequence.
//   - The interval of polls grows with the fleet and with what polls consume, so that all nodes
//     together stay within the read throughput of the log's partition, and never exceeds five
//     seconds unless Options.Poll does. The staleness bound grows with the interval.
//   - Times are measured by the wall clock and the monotonic clock, and the larger one counts: one
//     stops while a machine sleeps, the other may be set back.
package changelog

// The files:
//
//	follower.go   the cursor, gaps, the interval of polls
//	lag.go        how long this process has not read the log, and what may be served then
//	allowance.go  waiting for a sequence, limited
