package store

import (
	"context"
	"iter"
)

// An Inventory tells what a store has, for the collection of garbage.
type Inventory interface {
	// ReferencedBodies yields all pages, each at least once, in no given order, with the
	// bodies that their rows name, and ends after the first error. It reads
	// strongly: a page is among them if it has any row (a lease, an entry, a version
	// or a request) for as long as the listing lasts. Rows that appear, change or
	// go meanwhile may be missed, so that what is yielded of a page tells where to
	// look closer, with BodyKeys.
	ReferencedBodies(ctx context.Context) iter.Seq2[ReferencedBodies, error]
	// BodyKeys returns the bodies that any row of the partition names (the
	// current entry, versions, results of requests), read strongly.
	BodyKeys(ctx context.Context, pk string) ([]string, error)
}

// ReferencedBodies are the bodies that the rows of a page name.
type ReferencedBodies struct {
	// PK is the page's partition key.
	PK string
	// Keys are the names as the rows have them: those of other services may be URLs.
	// There are none where the page is leased and has no content.
	Keys []string
}
