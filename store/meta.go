package store

import (
	"context"
	"time"
)

// A MetaStore holds the metadata, leases and purge state of all pages. Consumers ask for
// the part that they use; a store implements all of them.
//
// Every method names a page by its partition key (see [Partition]), which the store
// treats as opaque text.
//
// Contract, checked by isrtest.MetaStore:
//
//   - Consistency: reads are strongly consistent. Every read sees every write that was
//     acknowledged before the read began, on any node.
//   - Durability: a write that returned nil survives a crash of the process.
//   - Atomicity: a publish happens completely or not, and no reader sees a part of it.
//   - Definite answers: Acquire and Publish settle the outcome of a write whose reply was
//     lost before they return. [ErrLeaseLost], [ErrMoved] and [*HeldError] are returned
//     only for writes that certainly did not happen. Other errors of Publish mean that it
//     did not happen and can no longer happen, unless they wrap [ErrUnknownOutcome].
//   - Concurrency: all methods are safe for concurrent use.
//   - Bad input, such as an empty partition key or a negative window, is refused with
//     [ErrInvalidKey] or [ErrInvalidInput] before anything is written.
//
// Errors that are not declared in this package mean that the store could not be reached.
type MetaStore interface {
	Reader
	LeaseStore
	HistoryStore
	RequestStore
	LogStore
	PurgeStore
	VariantStore
	PresenceStore
	OutboxStore
	QuarantineStore
	Inventory
}

// A Reader reads pages: the read path of the cache. It keeps the contract of [MetaStore].
type Reader interface {
	// Read returns all that the store knows of a partition, in one strongly
	// consistent read. A partition that was never written is a zero Record.
	Read(ctx context.Context, pk string) (Record, error)
	// ReadSerializable is Read in a transaction of its own, which costs more. Read may see a
	// part of a change that is being committed, whose other part the caller has seen already,
	// such as its row in the log. ReadSerializable returns the whole of every change that any
	// reader has seen in part before the call.
	ReadSerializable(ctx context.Context, pk string) (Record, error)
}

// A LeaseStore grants leases and publishes under them: the regeneration of pages. It
// keeps the contract of [MetaStore].
type LeaseStore interface {
	// Acquire takes the lease of a partition for d, rounded up to whole seconds. If
	// another process holds it, the error is a *HeldError.
	//
	// A claim, which may be nil, records a request as started in the same atomic
	// step: a caller that does not get the lease leaves no trace. A request that was
	// made before is a *RequestError, unless it failed, or was started by a holder
	// that is gone: then it is taken over. Refresh keeps it in progress, and Publish
	// completes it.
	Acquire(ctx context.Context, pk string, d time.Duration, claim *Claim) (Lease, error)

	// Refresh extends a held lease by the duration it was acquired for, counted from
	// now. ErrLeaseLost: it expired or was taken over, and cannot be held again.
	Refresh(ctx context.Context, l Lease) error

	// Release gives the lease up. Releasing a lost lease does nothing and returns nil.
	Release(ctx context.Context, l Lease) error

	// BackOff replaces a held lease by a back-off row that no process holds, until d
	// has passed, and increments its count of failures: the whole fleet waits for that
	// long. BackOff of a lost lease does nothing and returns nil.
	BackOff(ctx context.Context, l Lease, d time.Duration) error

	// BreakLease frees the lease that read saw, whichever process holds it, and only if
	// it is unchanged. ErrMoved: it changed; it may be gone, but not by this call. The
	// holder of a broken lease cannot publish. If read saw no lease, nothing is done
	// and the error is nil. After any other error it may or may not have been freed.
	BreakLease(ctx context.Context, read Record) error

	// Publish makes next the current entry and gives up the lease, in one atomic step,
	// and only if no other process has taken the lease, it had not expired when the
	// request was made (ErrLeaseLost otherwise), and the entry is still exactly what
	// read saw (ErrMoved otherwise). It returns next with the Version it was given.
	// Attributes that are not part of an Entry survive. ErrPinned: the entry is pinned,
	// and how does not unpin it. A publish that ends a pin or asks for a reload appends
	// to the log (see LogStore) in the same atomic step. A publish that withdraws the
	// page does not complete the lease's request.
	Publish(ctx context.Context, l Lease, read Record, next Entry, how PublishOptions) (Entry, error)
}

// DefaultLease is the usual duration of a lease.
const DefaultLease = 30 * time.Second

// A Lease is the right to regenerate one page. Only Acquire of a [LeaseStore] makes one, and
// a store accepts its own leases only: a publish without a lease cannot be written. The
// values are those at acquisition.
type Lease interface {
	// PK is the partition that the lease is for.
	PK() string
	// Duration is how long Acquire and each Refresh grant the lease for.
	Duration() time.Duration
	// Failures is the number of consecutive regenerations that failed before this lease
	// was acquired.
	Failures() int
}

// A Record is one consistent read of a partition.
type Record struct {
	// Entry is the current entry; nil if there is none, or it is malformed.
	Entry *Entry
	// Purges is the purge state of this key alone; zero if it was never purged.
	Purges PurgeState
	// Lock is the lease row, nil if there is none. It is a hint, as it may change at any
	// time: only Acquire decides which process holds the lease.
	Lock *Lock
	// Malformed is why the stored row cannot be used as an Entry; it names the row and
	// the attribute. The entry then counts as missing.
	Malformed error
	// Fence lets the store recognise that the entry has not been written since. Only the
	// store makes and reads it.
	Fence any
}

// LeasedAt reports whether a process holds the lease of the page at a time, as far as Lock says: a
// back-off is no lease.
func (r Record) LeasedAt(now time.Time) bool {
	return r.Lock != nil && !r.Lock.IsBackOff() && r.Lock.HeldAt(now)
}

// A Lock describes a lease row.
type Lock struct {
	// Owner is the name of the holder; empty if it gave none, and in a back-off row.
	Owner string
	// ExpiresAt is when the lease becomes free, as stored; see HeldAt.
	ExpiresAt time.Time
	// Failures counts consecutive failed regenerations; see IsBackOff.
	Failures int
}

// HeldAt reports whether the lease, or the back-off, is in force at a time. A lease that
// ends later than any lease can, such as one that another service wrote in milliseconds,
// is free.
func (l Lock) HeldAt(now time.Time) bool { return inForce(l.ExpiresAt, now) }

// inForce reports whether a lease that ends at a time is in force now.
func inForce(end, now time.Time) bool {
	// The longest lease is ten years. Clocks differ by less than a day.
	const longest = (10*365 + 1) * 24 * time.Hour
	return end.After(now) && !end.After(now.Add(longest))
}

// IsBackOff reports whether the row is the back-off after a failure rather than a lease.
func (l Lock) IsBackOff() bool { return l.Owner == "" && l.Failures > 0 }
