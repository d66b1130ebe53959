// Package generations is what operators do with the stored generations of a page: list, show and compare them,
// roll back to an older one, pin the current one, and accept one from quarantine.
//
// The problem: an operator decides for all nodes, at any time. The page may be regenerated at the same time; other operators
// and other services write it, too; a body may have been collected. What an operator has decided holds at once
// here, and on the other nodes once they have read the log; and no page refers to a body that is gone.
//
// The model: a page is its current entry (META), the generations that are kept (VER#), and at most one in quarantine
// (QUARANTINE). Each generation has a body of its own.
//
//	Rollback, Pin, Unpin   read META ──► the body exists? ──► list the variant ──► write META if it is what was read
//	                           ▲                                                        │ it has changed: again,
//	                           └────────────────────────────────────────────────────────┘ at most five times
//	Accept                 acquire LOCK, ends a back-off ──► read META and QUARANTINE ──► publish, with a
//	                       reload in the log ──► delete QUARANTINE
//
// Guarantees:
//   - Rollback, Pin and Unpin wait for no lease. A regeneration in progress fails to publish.
//   - This node serves no copy from before an operation once that returns, also if it returns an error: the change
//     may have been made. If we crash, the node learns of it from the log, as all others do.
//   - META refers to no generation whose body was missing when it was checked, and that garbage collection could
//     delete after the check: the write requires that the row of the generation exists.
//   - A generation that was purged hard does not become current.
//   - What is read to be shown or compared is bounded.
package generations
