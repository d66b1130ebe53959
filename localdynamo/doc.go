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
