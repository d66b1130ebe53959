// Package localdynamo is DynamoDB in one file, inside the process: tables,
// items, conditions, transactions and expiry with the semantics of AWS, behind
// the method signatures of the SDK's own client.
//
// The problem: a program written for DynamoDB should run unchanged, with the
// very expressions and transactions that it runs in production, on one machine
// that has no DynamoDB, and lose nothing when that machine is switched off.
//
// The model: one goroutine does all writing. It takes every request that has
// gathered while the last commit was under way, evaluates them one after the
// other inside a single transaction of the store, commits, and only then
// answers. Readers work on snapshots and wait for nobody.
//
//	PutItem ─┐                        ┌─ condition, update ─┐
//	Update  ─┼─► requests ─► writer ──┼─ condition, put     ├─► commit, fsync ─► answers
//	Transact─┘    (a batch)           └─ condition fails    ┘
//	                                        │ get, range, put, delete
//	GetItem ──► snapshot ───────────►  internal/store  (bbolt, one file)
//	Query, Scan                             │
//	                              items by ordered key, internal/value
//
// What is guaranteed:
//
//   - A write that was acknowledged is on disk (unless Options.NoSync).
//   - Writes are serializable: each sees all of every earlier one, and a
//     transaction is seen whole or not at all, by readers and after a crash.
//   - Reads are strongly consistent, always. An eventually consistent read is
//     only cheaper in the capacity that is reported.
//   - A request whose condition fails changes nothing, and holds up nobody who
//     shares its batch.
//   - If a commit fails, every request of its batch gets the error, and nothing
//     was acknowledged.
//
// Errors of operations are the SDK's own types, such as
// *types.ConditionalCheckFailedException; the ValidationException, for which
// the SDK has no type, is a *smithy.GenericAPIError with that Code. A failure of
// the disk wraps *types.InternalServerError. If nothing was written, and repeating
// the request is of no use, as on a full disk or in a damaged file, the error also
// has a method Definite that returns true. FIDELITY.md lists what is left out and
// where the engine is known to differ from AWS.
package localdynamo
