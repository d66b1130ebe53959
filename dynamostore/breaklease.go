package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/tabletheory"
)

// BreakLease implements [isr.MetaStore]. If the record shows no lease there is
// nothing to free: no error. A lease without a token, which another service took,
// counts as moved once it was refreshed.
func (s *Store) BreakLease(ctx context.Context, read isr.Record) error {
	ctx = s.during(ctx, "break lease")
	f, err := fenceOf(read)
	if err != nil {
		return fmt.Errorf("break a lease: %w", err)
	}
	if f.lock == nil {
		return nil
	}
	asked := 0
	err = s.try(ctx, func(ctx context.Context) error {
		asked++
		same := f.sameLock()
		return s.db.WithContext(ctx).Model(&lockRow{location: s.at(f.pk, skLock)}).
			WithConditionExpression(same.Expression, same.Values).
			Delete()
	})
	if tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
		if err != nil {
			err = fmt.Errorf("break the lease of %s: %w", f.pk, err)
		}
		return err
	}
	failed, ok := errors.AsType[*tabletheory.ConditionError](err)
	if ok && failed.Item == nil && asked > 1 {
		return nil // by an earlier attempt, whose reply was lost
	}
	return fmt.Errorf("break the lease of %s: %w%s", f.pk, isr.ErrMoved, whoHasIt(err))
}
