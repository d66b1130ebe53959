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
// that only one process may run. The leases are stored like the leases of pages, in the
// same table or in another, with the same guarantees: at most one unexpired lease per
// key, and its holder learns when it has lost it. It is safe for concurrent use, and
// need not be closed.
//
// A lease does not prevent a holder that was frozen from writing elsewhere after the
// lease has expired: make the writes of a job conditional as well.
type LeaseManager struct {
	store *Store
}

// jobPrefix is the prefix of the partition keys of jobs.
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
// rounded up to whole seconds. It does not wait: if the lease is held by another
// process, the error is a [*store.HeldError]. The error wraps [store.ErrInvalidKey] if
// the key is invalid; [Store.Acquire] lists the others.
func (m *LeaseManager) Acquire(ctx context.Context, key string, d time.Duration) (store.Lease, error) {
	const longest = 1024
	if key == "" || len(key) > longest || !utf8.ValidString(key) {
		return nil, fmt.Errorf("%w: the key of a lease must be UTF-8 of 1 to %d bytes (got %d bytes, %.60q)", store.ErrInvalidKey, longest, len(key), key)
	}
	return m.store.Acquire(ctx, jobPrefix+key, d, nil)
}

// Refresh extends a held lease by the duration it was acquired for, counted from
// now. [store.ErrLeaseLost]: it expired or was taken, which is final.
func (m *LeaseManager) Refresh(ctx context.Context, l store.Lease) error {
	return m.store.Refresh(ctx, l)
}

// Release ends a lease. Releasing a lost lease does nothing and returns nil.
func (m *LeaseManager) Release(ctx context.Context, l store.Lease) error {
	return m.store.Release(ctx, l)
}

// Run acquires the lease of a key, runs the job with a heartbeat every third of d, and
// releases the lease. The job's context ends with ctx, and with the cause
// [store.ErrLeaseLost] when the lease is lost.
//
// It returns the error of Acquire if the job was not run; one that wraps
// store.ErrLeaseLost and the job's error if the lease was lost before the job returned;
// otherwise the job's error.
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

// finish ends the heartbeat and releases the lease, independently of ctx. If that
// fails, the lease expires.
func (m *LeaseManager) finish(ctx context.Context, l store.Lease, stop func()) {
	stop()
	ctx, cancel := settling(ctx, m.store.config.CallTimeout)
	defer cancel()
	if err := m.store.Release(ctx, l); err != nil {
		m.store.config.Logger.Warn("isr: failed to release a lease; it stays until it expires", slog.String("pk", l.PK()), slog.Any("err", err))
	}
}
