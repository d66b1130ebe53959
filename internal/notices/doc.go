// Package notices tells people of the problems of a site: failing pages, quarantined generations, purges that are not delivered,
// certificates near their end, stores and origins that do not answer.
//
// The problem: a message for each error is a flood in an outage, one for each server of a fleet is another flood, and a queue of messages
// grows while nobody takes them.
//
// The model: a problem is a state with an identity, its kind and subject. It is told when it has lasted for a while, again while it
// lasts, and once more when it has ended:
//
//	Options.Problems ─► tracked: since when ─► due for a destination? ─► claim by a lease ─► one message of all that is due
//	  every 10 s                               begun · continues · ended                        │
//	                                                                      failed: back-off, and what is true then is told
//
// The guarantees:
//
//   - Nothing is queued: what could not be delivered is told later as it is then, so that memory is bounded, and a message is never
//     about what is over.
//   - A destination gets at most one message a minute from all servers of a table. A problem that several servers see is told by one
//     of them; if the stores do not answer, each tells it by itself.
//   - A problem is told at least once if it lasts: a server that ends during a delivery delays it by a minute.
//   - The end of a problem is told by the server that has told its beginning. If this server has ended before, it is not told.
package notices
