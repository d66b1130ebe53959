package isr

import (
	"context"
	"io"
	"iter"
	"time"
)

// A MetaStore holds the metadata, leases and purge sequences of all cache keys.
// Every method names a cache key by its partition key (see [Partition]), which
// the store treats as opaque text.
//
// Contract, checked by isrtest.MetaStore:
//
//   - Consistency: every read sees every write that was acknowledged before the
//     read began, on whatever node.
//   - Durability: a write that returned nil survives a crash of the process.
//   - Atomicity: Publish happens as a whole or not at all, and no reader ever
//     sees a part of it.
//   - Definite answers: Acquire and Publish settle an outcome that a lost reply
//     left unknown before they return. [ErrLeaseLost], [ErrMoved] and [*HeldError]
//     are said only of writes that certainly did not happen, and other errors of
//     Publish mean that it did not happen and can no longer happen, unless they
//     wrap [ErrUnknownOutcome].
//   - Concurrency: all methods are safe for concurrent use.
//   - Bad input, such as a partition key without text or a window that is
//     negative, is refused before anything is written, with [ErrInvalidKey] or
//     [ErrInvalidInput].
//
// Errors that are none of this package's mean that the store could not be asked.
type MetaStore interface {
	// Read returns all that the store knows of a partition, in one strongly
	// consistent read. A partition that was never written is a zero Record.
	Read(ctx context.Context, pk string) (Record, error)

	// Acquire takes the lease of a partition for d, which is rounded up to
	// whole seconds. If somebody else holds it, the error is a *HeldError.
	//
	// With a claim, which may be nil, the request is recorded as started in the
	// same atomic step: whoever does not get the lease leaves no trace. A request
	// that was made before is a *RequestError, unless it failed, or was started
	// and its holder is gone: then it is taken over. Refresh keeps it in
	// progress, and Publish completes it.
	Acquire(ctx context.Context, pk string, d time.Duration, claim *Claim) (Lease, error)

	// Refresh extends a held lease by the duration it was acquired for, counted
	// from now. ErrLeaseLost: it expired or was taken; it cannot come back.
	Refresh(ctx context.Context, l Lease) error

	// Release gives the lease up. Releasing a lease that is already lost does
	// nothing and is no error.
	Release(ctx context.Context, l Lease) error

	// BackOff turns a held lease into one that nobody holds until d has passed,
	// and raises its count of failures by one: the fleet leaves the page alone
	// for that long. A lease that is already lost is left as it is: no error.
	BackOff(ctx context.Context, l Lease, d time.Duration) error

	// BreakLease frees the lease that read saw, whoever holds it, and only if it
	// is still that one (ErrMoved otherwise, if it is gone too, but not by this
	// call). Its holder cannot publish any more. If read saw none, nothing is done:
	// no error. Any other error leaves open whether it was freed.
	BreakLease(ctx context.Context, read Record) error

	// Publish makes next the current entry and gives up the lease, in one
	// atomic step, and only if nobody has taken the lease, it had not expired when
	// the request was made (ErrLeaseLost otherwise), and the entry is still exactly
	// what read saw (ErrMoved otherwise). It returns next with the Version it was given.
	// Attributes that are none of an Entry's survive. ErrPinned: the entry is
	// pinned, and how does not unpin it. A publish that ends a pin, or has others
	// reload the page, is in the log (see LogStore) in the same atomic step. One that
	// withdraws the page does not complete the lease's request.
	Publish(ctx context.Context, l Lease, read Record, next Entry, how Publishing) (Entry, error)

	HistoryStore
	RequestStore
	LogStore
	Inventory
}

// A Lease is the right to regenerate one page. Only a [MetaStore] makes one, by
// Acquire, and it accepts no other store's: a publish without a lease cannot be
// written. The values are those of the moment of acquisition.
type Lease interface {
	// PK is the partition the lease is for.
	PK() string
	// Duration is the lifetime that Acquire and each Refresh grant.
	Duration() time.Duration
	// Failures is the number of regenerations in a row that failed before this
	// lease was acquired.
	Failures() int
}

// A Record is one consistent read of a partition.
type Record struct {
	// Entry is the current entry; nil if there is none, or none that is valid.
	Entry *Entry
	// Cover is the purge of this very key, zero if it was never purged.
	Cover Cover
	// Lock is the lease row, nil if there is none. It is a hint (it may change
	// at any time): only Acquire decides who holds the lease.
	Lock *Lock
	// Malformed says why the stored row could not be used as an Entry: it names
	// the row and the attribute. The entry then counts as missing.
	Malformed error
	// Fence is what the store needs to recognise that nothing was written since;
	// it is made and understood by the store alone.
	Fence any
}

// A Lock describes a lease row.
type Lock struct {
	// Owner is the name that the holder gave itself, empty if it gave none or
	// the row is a back-off.
	Owner string
	// ExpiresAt is the moment from which the lease is free, as it is stored; see HeldAt.
	ExpiresAt time.Time
	// Failures counts the failed regenerations in a row; see IsBackOff.
	Failures int
}

// HeldAt reports whether the lease is held, or the pause lasts, at a time. A
// lease that ends later than any can, such as one that another service wrote in
// milliseconds, is free.
func (l Lock) HeldAt(now time.Time) bool { return lasts(l.ExpiresAt, now) }

// lasts reports whether a lease, or what lasts as long as one, that ends at a
// time is in force now.
func lasts(end, now time.Time) bool {
	// Ten years is the longest lease. Clocks differ by less than a day.
	const longest = (10*365 + 1) * 24 * time.Hour
	return end.After(now) && !end.After(now.Add(longest))
}

// IsBackOff says that the row is no lease but the pause that a failure left.
func (l Lock) IsBackOff() bool { return l.Owner == "" && l.Failures > 0 }

// A Sequence is the state of the purge log.
type Sequence struct {
	// Seq is the number of the newest purge, 0 if there never was one.
	Seq int64
	// MarkLifetime is how long purge marks are kept, 0 if there are none.
	MarkLifetime time.Duration
}

// A BodyStore holds immutable response bodies under keys that are used once.
//
// Contract, checked by isrtest.BodyStore:
//
//   - Consistency: a body can be read, and is listed, once Put has returned nil.
//   - Durability: a body whose Put returned nil survives a crash.
//   - Atomicity: a reader sees the whole body or [ErrNotFound], never a part.
//   - Absence: ErrNotFound is said of a body that is definitely not there. A
//     store that is not allowed to look says [ErrDenied], and one that cannot
//     tell returns any other error: callers render what is missing anew, and
//     override its pin.
//   - Time: a store on the network bounds each call, and each Read, also when
//     the context has no deadline.
//   - Concurrency: all methods are safe for concurrent use; of several Puts
//     under one key with different content, exactly one wins.
//
// Keys are relative slash-separated paths, as [ValidBodyKey] says; another key is
// refused before any I/O with [ErrInvalidKey].
type BodyStore interface {
	// Put stores a body under a new key. Storing the same bytes again under the
	// same key succeeds (a retry whose first reply was lost); storing other
	// bytes is [ErrExists] and changes nothing.
	Put(ctx context.Context, key string, body []byte) error
	// Open opens a body for reading, with its length in bytes. The caller closes
	// it. ErrNotFound if there is none. Reading ends with io.EOF only after the
	// whole body.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Stat describes a body without reading it. ErrNotFound if there is none.
	Stat(ctx context.Context, key string) (BodyInfo, error)
	// Delete removes a body. Removing one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List yields the bodies whose keys begin with prefix, in no given order,
	// and ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[BodyInfo, error]
}

// BodyInfo describes a stored body.
type BodyInfo struct {
	Key        string
	Length     int64 // bytes
	ModifiedAt time.Time
}
