package dynamostore

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// BreakLease implements [store.MetaStore]. If the record shows no lease there is
// nothing to free: no error. A lease without a token, which another service took,
// counts as moved once it was refreshed.
//
// It is a transaction of one row, at two write units, for the sake of its client
// token: whoever repeats it because a reply was lost, this package or the SDK
// beneath it, is told what became of the first. So ErrMoved is said only if the
// lease was not freed by this call, and any other error leaves that open.
func (s *Store) BreakLease(ctx context.Context, read store.Record) error {
	ctx = s.during(ctx, "break lease")
	f, err := fenceOf(read)
	if err != nil {
		return fmt.Errorf("break a lease: %w", err)
	}
	if f.lock == nil {
		return nil
	}
	lock, same := &lockRow{location: s.at(f.pk, skLock)}, f.sameLock()
	request := s.newRequest([]action{{opLock, func(tx *tabletheory.TransactionBuilder) { tx.Delete(lock, same) }}})
	switch err := s.try(ctx, request.send); {
	case tabletheory.OutcomeOf(err) == tabletheory.ConditionFailed:
		return fmt.Errorf("break the lease of %s: %w%s", f.pk, store.ErrMoved, whoHasIt(err))
	case err != nil:
		return fmt.Errorf("break the lease of %s: %w", f.pk, err)
	}
	return nil
}
