package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// ErrNotQuarantined: the page has no generation in quarantine, or another one.
var ErrNotQuarantined = errors.New("there is no such generation in quarantine")

// Quarantined is a generation of a page that was rendered and not published, because it was
// suspicious.
type Quarantined struct {
	// PK is the partition of the page, Tenant the tenant of its key.
	PK, Tenant string
	// Entry describes the generation. Its Expires is when the store may delete it; it counts
	// as gone from then on.
	Entry Entry
	// Reason is why the generation was rejected, for people; at most 1,024 bytes are kept.
	Reason string
	// RejectedAt is when, in whole seconds.
	RejectedAt time.Time
	// Keep is PublishOptions.Keep if the generation is published with history, or 0.
	Keep int
}

// A QuarantineStore keeps the last rejected generation of each page. It keeps the contract of
// [MetaStore].
type QuarantineStore interface {
	// Quarantine keeps a rejected generation of the page of a lease, which replaces an earlier
	// one, and only if the lease is held (ErrLeaseLost otherwise). From then on its body is
	// referenced (see Inventory). The lease stays held. After another error it may or may not
	// have been kept.
	Quarantine(ctx context.Context, l Lease, q Quarantined) error
	// Quarantined returns the generation of a page that is in quarantine, by a strongly
	// consistent read. ErrNotQuarantined: there is none, or it has expired, or its row is
	// malformed.
	Quarantined(ctx context.Context, pk string) (Quarantined, error)
	// DropQuarantined deletes it, if it is the given generation; otherwise it does nothing
	// and returns nil.
	DropQuarantined(ctx context.Context, pk, generation string) error
	// AllQuarantined yields the generations of all pages that are in quarantine, in no
	// particular order, and ends after the first error. It reads the whole table. Rows that
	// appear during the read may be missing; malformed ones are skipped.
	AllQuarantined(ctx context.Context) iter.Seq2[Quarantined, error]
}
