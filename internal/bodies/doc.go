// Package bodies reads stored bodies: from the page cache of the operating system, the local disk, the
// memory of a peer, or the bucket.
//
// The problem: an entry of the table names its body, which may be in several places, between
// microseconds and a hundred milliseconds away. It may also be gone, damaged, as large as the memory
// of this process, or in a store that does not answer. And a process that starts with an empty memory
// would read bodies by the thousand.
//
// The model: a [Reader] has one way for each purpose.
//
//	                   ┌ Cached    page cache: waits for nothing, and is for one response
//	for visitors       ├ Load      local disk: one read for all requests that wait for the page
//	                   └ Open      parts of a body, from the local disk or the store, while they are sent
//	for a regeneration ┬ Read      local disk ──► the peer that rendered the page ──► another peer ──► store
//	                   ├ ReadOnce  the same, without a retry                └── slow: the store as well
//	                   └ Check     the store, in pieces that are not kept
//	for operators      ─ ReadStored the store
//
// Read, ReadOnce and Check are bounded in number (Options.Reads), the newest first. Whole bodies of more
// than [MaxCached] bytes take their length of a budget while they are read, and local disks have at
// most 64 reads at once.
//
// Guarantees:
//   - Read, ReadOnce, ReadStored and Check verify the length and the digest of the entry, wherever the
//     body comes from; [ErrMissing] if they differ. Bodies of other services have no digest.
//   - A Body that is read from its first byte returns its last bytes only if its digest is right.
//     Cached, Load and Local return what is on the disk: the caller verifies it.
//   - Read retries a failed read as long as the store answers, and returns [ErrUnreadable] after three.
//     Errors that are not declared here say nothing about the body: the store does not answer, or
//     denies access.
//   - A peer is asked only for what can be verified, reads nothing but its memory and its local disk,
//     and delays the store by 10 ms, and 1 ms for each 64 KiB, at most.
package bodies
