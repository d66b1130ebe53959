package isr

import (
	"context"
	"iter"
)

// An Inventory tells what a store has, for the collection of garbage.
type Inventory interface {
	// Partitions yields the partition keys of all pages, each at least once, in
	// no given order, and ends after the first error. A partition is among them
	// if it has any row of a page for as long as the listing lasts: a lease, an
	// entry, a version or a request. Rows that appear meanwhile may be missed.
	Partitions(ctx context.Context) iter.Seq2[string, error]
	// BodyKeys returns the bodies that any row of the partition names (the
	// current entry, versions, results of requests), read strongly.
	BodyKeys(ctx context.Context, pk string) ([]string, error)
}
