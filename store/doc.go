// Package store is the seam between the cache and its storage: the interfaces that a store
// implements, the values that pass through them, and the pure rules that every writer of
// the table follows.
//
//	isr, gc, gateway ──► store ◄── dynamostore, s3body, dirbody
//
// A page is named by a [Key] and stored under the partition key that a [Partition] derives
// from it. Its current [Entry] (the META row) names a body in a [BodyStore]. A [Lease] is
// the right to regenerate the page: Publish takes one, so that a process that holds none
// cannot write an entry. [Freshness] decides what an entry is worth at a moment, given the
// [PurgeState] that covers it.
//
// The interfaces are contracts: their comments define what a store guarantees about
// consistency, durability, atomicity and errors, and package isrtest checks it.
package store
