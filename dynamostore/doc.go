// Package dynamostore keeps the metadata and the leases of cached pages in one
// DynamoDB table: it is the [store.MetaStore] of a fleet.
//
// # Problem
//
// Many processes serve the same pages. Exactly one of them is to regenerate an
// expired page. A process may die or freeze at any point of that, replies of the
// database get lost, and other services, in other languages, write to the same table.
//
// # Model
//
// The rows of one page share a partition. The first three are neighbours in sort
// order, so that one strongly consistent Query reads them at the price of one item:
//
//	pk = CACHE#…   sk = LOCK    the lease: lease_token, lease_expires_at
//	               sk = META    the current generation: s3_key, generated_at, …, isr{v, …}
//	               sk = PURGE   the purge of this page: seq, hard_seq, at
//	               sk = REQ#…   the request record of an idempotency key
//	               sk = VER#…   a kept generation; the current one has a row too
//	pk = PURGE     sk = SEQ     the purge sequence of the table
//	               sk = LOG#…   the change at a sequence, which nodes follow
//	               sk = MARK#…  the newest purge of a tag, a prefix, a tenant, a site
//	               sk = BUILD   the current build of the site
//	pk = NODES     sk = NODE#…  a live process, and what it has applied of the log
//	pk = OUTBOX    sk = JOB#…   a delivery to a downstream cache; FAILED#…: a failed one
//	pk = JOB#…     sk = LOCK    the lease of another job; see LeaseManager
//
//	acquire ──► PutItem LOCK, if free ────────────────────────────┐
//	refresh ──► UpdateItem LOCK, if still ours                    │ lease
//	publish ──► ┌ Update META, if it is exactly what was read ┐   │
//	            ├ Delete LOCK, if still ours and not expired  ┤ ◄─┘
//	            ┊ Put VER#, Update the previous VER#          ┊ with history
//	            ┊ Update REQ#, if it is still ours            ┊ with a claim
//	            └ Update SEQ, Put LOG#                        ┘ if it ends a pin
//	              one transaction: all or nothing
//
//	rollback ─► ┌ Update META, if it is exactly what was read ┐ for each change
//	            ├ Update VER#, if it still exists             ┤
//	purge ────► ├ Update MARK# or PURGE, for each target      ┤
//	            ├ Update SEQ, if it is what was read          ┤ once for all of them
//	            └ Put LOG#                                    ┘
//
// Concurrent changes of the log in one store share a transaction (group commit): each
// of them advances SEQ, so separate transactions would refuse each other.
//
// A lease that is acquired with a claim is written in one transaction with its REQ#
// row, and so is each refresh. A process that loses one of them loses both.
//
// META has the attributes of the reference schema, which every writer writes, and the
// map `isr` of this package, which is replaced as a whole. The map names the content
// that it describes. If another writer has changed the row since, the map is ignored,
// and the row is read as a foreign entry.
//
// All writes run on one engine, Store.execute: attempt, classify the reply, settle
// what stays unknown. See operation.go.
//
// # Guarantees
//
//   - At most one unexpired lease per page, and only its holder publishes: no publish
//     commits after another process has taken or deleted the lease. After its lease
//     has expired, however long it slept, a holder sends no write that could succeed:
//     each write carries the time at which it was made, and requires that the lease
//     ends later. A write that was made before the end and is delayed on its way can
//     still be executed after it, as long as no other process has taken the lease.
//     That is harmless: it is the only publish under its lease, of content that has
//     not been replaced. A delayed refresh gives the lease back to its holder.
//   - No lost updates: a publish names what it replaces (the fence), and fails if
//     anything else was written in between. isr.v never has the same value twice.
//   - A claimed request is executed once, whichever processes fail before it ends.
//   - A regeneration never undoes a rollback that came after its start, and a rollback
//     never restores what a hard purge covers, of the page or by a mark.
//   - Every change that ends or moves a pin is in the log, in the same transaction: a
//     node that has read it does not serve the pinned generation from memory.
//   - A purge is one transaction, whatever the number of pages. Its sequence is higher
//     than the sequence of anything that was rendered, rolled back or read before it.
//   - A change of the log never fails because of another one in its transaction,
//     unless the outcome of the transaction is unknown.
//   - Outcomes are definite: a lost reply is settled before a method returns, by
//     repeating the transaction under its client token, then by making it impossible
//     and reading the rows. See [Store.Publish] and [Store.Rollback].
//   - Malformed rows are reported by name, never trusted and never fatal: the next
//     publish replaces them.
//   - Attributes that this package does not know are preserved.
//   - A crash at any point leaves at most a LOCK row that expires, and a REQ# row that
//     can be taken over at the same time.
//
// Wall time comes from [Config.Now]. Nodes whose clocks differ by less than a lease's
// duration minus its heartbeat interval keep their leases apart. If they differ by
// more, a lease may be taken early, and the fence still refuses the slower of two
// publishes.
package dynamostore

// What a crash leaves behind, by the last step that was made:
//
//   - acquiring the lease: a lease that expires, on the embedded store none; stale pages are served until then,
//     requests for a missing page wait.
//   - rendering: a lease that expires, as above.
//   - writing the body: a lease that expires, and a body that no row refers to.
//   - writing a small body to the journal of dirbody, before its file is linked or synced: the journal, from which
//     the next start restores the file; if another process has the folder open, the file was not acknowledged and
//     the journal is removed.
//   - sending the publish: the page is current and the lease released, or neither.
//   - writing the codings of a body, after the publish: a page without stored codings, or with damaged ones: a node
//     that wants them makes them.
//   - quarantining a generation, or accepting it: the row QUARANTINE, until it expires: META names the
//     current generation.
//   - a failed render: LOCK as a back-off row, which every server respects and the next attempt replaces.
//   - acquiring the lease for a request with an idempotency key: also a request record in progress; once the lease
//     would have expired, a repetition of the request executes it.
//   - sending its publish: the page is current and the request completed, or neither.
//   - sending a rollback or a pin: the page is as requested and the log has the change for every server, or neither; the same
//     holds for all changes that share its transaction.
//   - deleting garbage: a lease that expires; some unreferenced bodies are deleted.
//
// META never points at a body that was not written. If a body is lost later, its page counts as missing and is
// rendered again. e2e/crash_test.go, e2e/holder_test.go and e2e/crashhistory_test.go kill real processes at these
// points.
