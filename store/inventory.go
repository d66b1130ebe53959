package store

import (
	"context"
	"iter"
)

// An Inventory lists what a store refers to, for garbage collection. It has the contract
// of [MetaStore].
type Inventory interface {
	// ReferencedBodies yields every page with the bodies that its rows refer to, at least
	// once, in no particular order, and ends after the first error. Reads are strongly
	// consistent. A page is included if it has any row (a lease, an entry, a version or a
	// request record) during the whole listing. Rows that appear, change or disappear
	// during the listing may be missed: the result names where to look closer, with BodyKeys.
	ReferencedBodies(ctx context.Context) iter.Seq2[ReferencedBodies, error]
	// BodyKeys returns the bodies that any row of the partition refers to (the current
	// entry, versions, results of requests), by a strongly consistent read.
	BodyKeys(ctx context.Context, pk string) ([]string, error)
	// PinnedForever yields the partition keys of the pages that are pinned until [Forever],
	// in no particular order, and ends after the first error. Reads are eventually
	// consistent: a pin that was made during the listing may be missing, and one that has ended
	// included.
	PinnedForever(ctx context.Context) iter.Seq2[string, error]
}

// A ListedPage is one page of a listing.
type ListedPage struct {
	// PK is the page's partition key.
	PK string
	// Record is what Read would have returned when the listing reached the page. Its Entry
	// is nil if the page has a lease or a purge but no content.
	Record Record
}

// ReferencedBodies are the bodies that the rows of one page refer to.
type ReferencedBodies struct {
	// PK is the page's partition key.
	PK string
	// Keys are the references as stored; keys of other services may be URLs. It is empty
	// if the page has a lease but no content.
	Keys []string
}
