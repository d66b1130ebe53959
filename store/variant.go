package store

import (
	"context"
	"strings"
	"time"
)

// A VariantStore lists the stored variants of pages: the pages whose keys differ from a page's
// in their variants only. They are in other partitions, so that a purge of a page
// by its key would not find them. It keeps the contract of [MetaStore].
type VariantStore interface {
	// AddVariant lists k, whose text names a variant, in pk, the partition of k without
	// its variant, at least until a time, rounded up to seconds, and a day longer; zero is
	// for ever. A variant that is listed for longer is left as it is.
	//
	// It must be called before the sequence is read that the entry of a variant gets as
	// its PurgeSeq, and for as long as the entry is kept before that is published: then a
	// purge of all that Variants returns covers all entries whose rendering began before.
	AddVariant(ctx context.Context, pk string, k Key, until time.Time) error

	// RemoveVariant removes a variant from the list, if it is listed until exactly the time
	// of an AddVariant. Only the holder of the lease of a variant without an entry may
	// call it.
	RemoveVariant(ctx context.Context, pk string, k Key, until time.Time) error

	// Variants returns the texts of the keys of up to limit variants that are listed in a
	// partition, by a strongly consistent read, in no particular order. more reports
	// whether there are others. A variant may be listed without being stored. limit must
	// be 1 to 10,000.
	Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error)
}

// WithoutVariant returns the key of the page that k is a variant of; k itself, and false, if
// it names no variant.
func (k Key) WithoutVariant() (page Key, isVariant bool) {
	page = k
	page.Text, _, isVariant = strings.Cut(k.Text, "#")
	return page, isVariant
}
