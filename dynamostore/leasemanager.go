package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/store"
)

// A LeaseManager gives leases to other jobs of a service, such as a nightly import
// that one of many processes is to run. The leases are kept in the table of the
// pages, or in one of their own, as those of pages are, with the same guarantees:
// at most one unexpired lease per key, whose holder finds out when it has lost
// it. It is safe for concurrent use, and need not be closed.
//
// A lease does not stop a holder that was frozen from writing elsewhere after it
// has expired: what a job writes should be made conditional as well.
type LeaseManager struct {
	store *Store
}

// jobPrefix begins the partition keys of jobs, whose rows are no page's.
const jobPrefix = "JOB#"

// NewLeaseManager returns the manager of the jobs of a table; see [New].
func NewLeaseManager(api API, table string, config Config) (*LeaseManager, error) {
	s, err := New(api, table, config)
	if err != nil {
		return nil, err
	}
	return &LeaseManager{store: s}, nil
}

// Acquire takes the lease of a key, text of 1 to 1,024 bytes, for d, which is
// rounded up to whole seconds. It does not wait: if somebody else holds the lease,
// the error is a [*store.HeldError]. Errors wrap [store.ErrInvalidKey] if the key is
// none; others are those of [Store.Acquire].
func (m *LeaseManager) Acquire(ctx context.Context, key string, d time.Duration) (store.Lease, error) {
	const longest = 1024
	if key == "" || len(key) > longest || !utf8.ValidString(key) {
		return nil, fmt.Errorf("%w: the key of a lease is text of 1 to %d bytes, not %.60q of %d", store.ErrInvalidKey, longest, key, len(key))
	}
	return m.store.Acquire(ctx, jobPrefix+key, d, nil)
}

// Refresh extends a held lease by the duration it was acquired for, counted from
// now. [store.ErrLeaseLost]: it expired or was taken, and cannot come back.
func (m *LeaseManager) Refresh(ctx context.Context, l store.Lease) error {
	return m.store.Refresh(ctx, l)
}

// Release gives a lease up. Releasing one that is already lost does nothing and
// is no error.
func (m *LeaseManager) Release(ctx context.Context, l store.Lease) error {
	return m.store.Release(ctx, l)
}

// Run acquires the lease of a key, runs the job, extending the lease at a third of
// d meanwhile, and releases it. The job's context ends with ctx, and with the
// cause [store.ErrLeaseLost] when the lease is lost.
//
// Errors: that of Acquire, if the job was not run; one that wraps
// store.ErrLeaseLost, and the job's, if the lease was lost before the job ended,
// whatever the job made of that; else what the job returned.
func (m *LeaseManager) Run(ctx context.Context, key string, d time.Duration, job func(context.Context) error) error {
	acquiredAt := time.Now()
	l, err := m.Acquire(ctx, key, d)
	if err != nil {
		return err
	}
	held, stop := store.KeepLease(ctx, l, acquiredAt, m.store.Refresh, m.store.config.Logger)
	defer m.finish(ctx, l, stop) // if the job panics, too
	err = job(held)
	if errors.Is(context.Cause(held), store.ErrLeaseLost) {
		return errors.Join(fmt.Errorf("run %s: %w", key, store.ErrLeaseLost), err)
	}
	return err
}

// finish ends the heartbeat and releases the lease, whether or not the caller is
// still there. If that fails, it expires.
func (m *LeaseManager) finish(ctx context.Context, l store.Lease, stop func()) {
	stop()
	ctx, cancel := settling(ctx, m.store.config.CallTimeout)
	defer cancel()
	if err := m.store.Release(ctx, l); err != nil {
		m.store.config.Logger.Warn("isr: a lease could not be released and is left to expire", slog.String("pk", l.PK()), slog.Any("err", err))
	}
}
