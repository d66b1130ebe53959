// Package dynamostore keeps the metadata and the leases of cached pages in one
// DynamoDB table: it is the [store.MetaStore] of a fleet.
//
// # Problem
//
// Many processes serve the same pages. Exactly one of them is to regenerate a
// page when it has expired, a process may die or freeze at any point while it
// does so, replies of the database get lost, and other services, in other
// languages, write rows into the same table.
//
// # Model
//
// The rows of one page share a partition. The first three are neighbours in sort
// order, so that one strongly consistent Query reads them at the price of one item:
//
//	pk = CACHE#…   sk = LOCK    who regenerates: lease_token, lease_expires_at
//	               sk = META    what is current: s3_key, generated_at, …, isr{v, …}
//	               sk = PURGE   the purge of this very page: seq, hard_seq, at
//	               sk = REQ#…   a request with an idempotency key: how far it has come
//	               sk = VER#…   generations that are kept, the current one among them
//	pk = PURGE     sk = SEQ     the purge sequence of the whole table
//	               sk = LOG#…   what happened at a sequence, for nodes to follow
//	               sk = MARK#…  the newest purge of a tag, a prefix, a tenant, a site
//	pk = JOB#…     sk = LOCK    the lease of another job; see LeaseManager
//
//	acquire ──► PutItem LOCK, if free ────────────────────────────┐
//	refresh ──► UpdateItem LOCK, if still ours                    │ lease
//	publish ──► ┌ Update META, if it is exactly what was read ┐   │
//	            ├ Delete LOCK, if still ours and not expired  ┤ ◄─┘
//	            ┊ Put VER#, Update the VER# of before         ┊ with history
//	            ┊ Update REQ#, if it is still ours            ┊ with a request
//	            └ Update SEQ, Put LOG#                        ┘ if it ends a pin
//	              one transaction: all or nothing
//
//	rollback ─► ┌ Update META, if it is exactly what was read ┐ of each change
//	            ├ Update VER#, if it is still there           ┤
//	            ├ Update SEQ, if it is what was read          ┤ once for all of them
//	            └ Put LOG#                                    ┘
//
// Changes of the log that one store makes at the same time share a transaction
// (group commit): each of them advances SEQ, and so would refuse the others.
//
// A lease that is acquired for a request is one transaction with its REQ# row, and
// so is each refresh. Whoever loses the one loses the other.
//
// META carries the attributes of the reference schema, which every writer gives,
// and the map `isr` of ours, which is replaced as a whole. The map says which
// content it describes; if another writer has changed the row since, the map is
// ignored and the row is read as that writer's.
//
// # Guarantees
//
//   - At most one unexpired lease per page, and a publish only by its holder:
//     no publish happens once somebody else has taken the lease, or freed it.
//     A holder whose lease has expired, however long it slept, makes no request
//     any more that could succeed: each states the moment at which it was made,
//     and demands that the lease ends after it. A request that was made before
//     the end, and is delayed on its way, can still be carried out after it, as
//     long as nobody has taken the lease meanwhile. It harms no one: it is the
//     only publish under its lease, and of what nobody has replaced. A refresh
//     that is delayed so gives the lease back to its holder.
//   - No write is lost: a publish names what it replaces (the fence), and fails
//     if anything else was written in between. isr.v never takes a value twice.
//   - A request is carried out once, whatever becomes of those who carry it out.
//   - A rollback is never undone by a regeneration that began before it, and never
//     brings back what a hard purge covers: of the page, or by a mark.
//   - Every change that ends or moves a pin is in the log, in the same transaction:
//     no node serves a pinned generation from memory after it has read that.
//   - A change of the log never fails because of another one that it shares a
//     transaction with, unless no answer comes at all.
//   - Answers are definite: a lost reply is settled before a method returns, by
//     repeating the request under its own token, and then by making it
//     impossible and looking at what is there. See [Store.Publish] and
//     [Store.Rollback].
//   - Rows that are malformed are named, never trusted and never fatal: the next
//     publish replaces them.
//   - Attributes that this package does not know survive everything.
//   - A crash at any point leaves at most a LOCK row that expires, and a REQ# row
//     that may be taken over at that moment.
//
// Wall time comes from [Config.Now]. What it must be good for: two nodes whose
// clocks differ by less than a lease's lifetime less its heartbeats keep their
// leases apart; if they differ by more, a lease may be taken early, and the
// fence still refuses the slower of two publishes.
package dynamostore
