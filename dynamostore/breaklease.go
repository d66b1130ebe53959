package dynamostore

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/store"
)

// BreakLease implements [store.MetaStore]. If the record shows no lease, it does
// nothing and returns nil. A lease without a token, which another service took,
// counts as moved once it was refreshed.
//
// It is a transaction of one row, at two write units, because of the client token:
// a repetition after a lost reply, by this package or by the SDK, returns the outcome
// of the first attempt. So ErrMoved means that this call did not delete the lease; any
// other error leaves that open.
func (s *Store) BreakLease(ctx context.Context, read store.Record) error {
	ctx = s.metered(ctx, "break lease")
	f, err := fenceOf(read)
	if err != nil {
		return fmt.Errorf("break a lease: %w", err)
	}
	if f.lock == nil {
		return nil
	}
	tx := s.newTransaction([]action{remove(onLock, &lockRow{location: s.at(f.pk, skLock)}, f.sameLock())})
	err = s.execute(ctx, operation{bounded: true, send: tx.send, refused: func(_ context.Context, err error, _ progress) (bool, error) {
		return false, fmt.Errorf("%w%s", store.ErrMoved, describeHolder(err))
	}})
	if err != nil {
		return fmt.Errorf("break the lease of %s: %w", f.pk, err)
	}
	return nil
}
