package dynamostore

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Request implements [store.MetaStore].
func (s *Store) RequestRecord(ctx context.Context, pk, key string) (store.RequestRecord, bool, error) {
	ctx = s.during(ctx, "request")
	if err := checkPartition(pk); err != nil {
		return store.RequestRecord{}, false, err
	}
	if err := store.ValidRequestKey(key); err != nil {
		return store.RequestRecord{}, false, err
	}
	_, request, err := s.findRequest(ctx, pk, key)
	if err != nil {
		return store.RequestRecord{}, false, fmt.Errorf("read the request %s of %s: %w", key, pk, err)
	}
	if request == nil {
		return store.RequestRecord{}, false, nil
	}
	return *request, true, nil
}

// EndRequest implements [store.MetaStore]. The lease may be lost or released by
// then. Like Release, it uses ctx as it is. After an error other than
// [store.ErrForeignLease] the request may be ended or not; it may be called again.
func (s *Store) EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error {
	ctx = s.during(ctx, "end request")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("end a request: %w", err)
	}
	if err := s.endRequest(ctx, true, held, end); err != nil {
		return fmt.Errorf("end the request of the lease of %s: %w", held.pk, err)
	}
	return nil
}

// endRequest writes the end of a lease's request, if it has one. bounded is as in
// repeat. If the attempt is not ours, or was finished, that is so because another
// took it over, or because an earlier call of ours was carried out.
func (s *Store) endRequest(ctx context.Context, bounded bool, l *lease, end store.RequestEnd) error {
	a := l.request()
	if a == nil {
		return nil
	}
	r, fields := a.finished(s, l.pk, end)
	err := s.repeat(ctx, bounded, func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(r).
			WithCondition("Attempt", "=", a.token).
			WithCondition("Status", "=", string(statusOf(store.RequestStarted))).
			Update(fields...)
	})
	if err != nil && tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
		return err
	}
	l.endRequest()
	return nil
}
