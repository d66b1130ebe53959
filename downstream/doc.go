// Package downstream delivers purges to the caches in front of this one: CDNs, Varnish
// and other isr servers.
//
// # Problem
//
// A purge is committed in one transaction. The caches in front of the servers keep their
// own copies, and their APIs are slow, limited in rate, and sometimes down. A purge must
// neither wait for them nor be lost on the way to them.
//
// # Model
//
// A transactional outbox: the transaction of the purge, the rollback or the pin also
// writes a job for each downstream cache ([store.OutboxStore]). A [Worker] in every
// process delivers the jobs:
//
//	purge ──► one transaction ──┬ marks, SEQ, LOG#
//	                            └ JOB#<destination>#<seq>
//	                                  │
//	worker: lease of the destination ─┤ one process of the fleet at a time
//	                                  ├ reads pending jobs, merges them into a [Batch]
//	                                  ├ [Destination.Deliver]
//	                                  └ deletes the jobs, or delays them, or fails them
//
// # Guarantees
//
//   - At least once: a job is deleted after its delivery was acknowledged. A crash between
//     the two delivers it again, which is harmless: purges are idempotent.
//   - Nothing is selected too narrowly: what a downstream cache cannot select, such as a
//     prefix on Fastly, is purged with something larger, at worst everything.
//   - Jobs of one destination are merged and delivered by one process at a time, so that
//     rate limits hold for the fleet. There is no order between jobs.
//   - A job that cannot be delivered is kept as failed, with the reason, for an operator.
package downstream

// The files:
//
//   - courier.go: delivers the jobs of one destination
//   - merge.go: which jobs are delivered together
//   - cloudfront.go, fastly.go, cloudflare.go, varnish.go, isr.go: a destination each
