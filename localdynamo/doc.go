// Package localdynamo is an embedded DynamoDB: tables, items, conditional
// writes, transactions and TTL with the semantics of AWS, stored in one file,
// behind the method signatures of the SDK's client.
//
// The problem: a program written for DynamoDB should run unchanged, with the
// expressions and transactions that it uses in production, on a machine
// without DynamoDB, and survive a power failure of that machine.
//
// The model: a single writer goroutine with group commit. It takes all writes
// that were queued during the last commit, evaluates them in order inside one
// transaction of the store, commits, and then replies. Readers use snapshots
// and never block.
//
//	PutItem ─┐                        ┌─ condition, update ─┐
//	Update  ─┼─► queue ────► writer ──┼─ condition, put     ├─► commit, fsync ─► replies
//	Transact─┘    (a batch)           └─ condition fails    ┘
//	                                        │ get, range, put, delete
//	GetItem ──► snapshot ───────────►  internal/store  (bbolt, one file)
//	Query, Scan                             │
//	                              items by ordered key, internal/value
//
// Guarantees:
//
//   - Durability: an acknowledged write is on disk (unless Options.NoSync, or it
//     is one of a Volatile).
//   - Writes are serializable. Transactions are atomic, for readers and after
//     a crash.
//   - Every read is strongly consistent. ConsistentRead only changes the
//     reported capacity.
//   - A write whose condition fails changes nothing, and does not affect the
//     other writes of its batch.
//   - If a commit fails, every write of its batch gets the error; none was
//     acknowledged.
//
// Operations return the SDK's error types, such as
// *types.ConditionalCheckFailedException. The SDK has no type for
// ValidationException: it is a *smithy.GenericAPIError with that Code. A disk
// failure wraps *types.InternalServerError. If nothing was written and a retry
// cannot help, as on a full disk or in a damaged file, the error also has a
// method Definite that returns true. FIDELITY.md lists unsupported features and
// known differences from AWS.
package localdynamo

// The life of a request. Package wire decodes JSON into the input structs of the SDK and calls the method.
//
//  1. The request is planned (mutation.go, query.go, …). Checks run in the same order as on AWS: fields, expressions,
//     table, keys, sizes. internal/expr parses each expression once, binds names and values, and refuses what no item
//     could satisfy. Legacy parameters become the same trees (legacy.go).
//  2. A read runs on a snapshot of the store and never blocks (get.go, page.go). Items stay encoded until they are
//     needed (internal/value). Over HTTP its response has a budget (internal/answer): if it does not fit, the snapshot
//     is dropped, and the read waits for room before it begins again (answer.go). The segments of a parallel Scan are
//     ranges of keys (segments.go).
//  3. A write goes to the single writer goroutine (groupcommit.go). It evaluates all queued writes in order in one
//     transaction of the store, with their index entries (index.go), commits, and then replies to all of them. So
//     conditions are serializable, and many writes share one fsync. A write of DB.Volatile does not wait for the disk
//     (volatile.go): until a durable write of the same item commits, it is kept in memory (overlay.go) and added to
//     every snapshot. The leases of isr serve on its own store are such writes, since the process that holds them ends
//     with the engine.
//  4. internal/store is an interface of four methods with two implementations: bbolt, and an in-memory tree. In the
//     file every value has a checksum of itself and its key (localdynamo/internal/store/checksum.go), which each read
//     verifies; a read that finds nothing verifies the neighbours and the branch pages
//     (localdynamo/internal/store/pages.go). A damaged item fails alone, with a *DamageError (damage.go).
//     localdynamo/internal/store/compact.go replaces the file by a copy while it is used.
//  5. What requests leave behind is done in the background, in pieces between other writes (task.go): the entries of
//     new indexes, and the items of deleted tables and indexes.
