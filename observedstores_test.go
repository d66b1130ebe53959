package isr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// TestOutcomeOf: the words for what a store has answered.
func TestOutcomeOf(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	throttled := &types.ProvisionedThroughputExceededException{}
	for _, call := range []struct {
		ctx  context.Context //nolint:containedctx // of the call
		err  error
		want string
	}{
		{t.Context(), nil, "ok"},
		{canceled, nil, "ok"},
		{t.Context(), &store.HeldError{}, "held"},
		{t.Context(), store.ErrMoved, "moved"},
		{t.Context(), store.ErrLeaseLost, "lost"},
		{canceled, store.ErrLeaseLost, "lost"},
		{t.Context(), store.ErrDenied, "denied"},
		{t.Context(), store.ErrNotFound, "not-found"},
		{t.Context(), store.ErrNotQuarantined, "not-found"},
		{t.Context(), store.ErrPinned, "refused"},
		{t.Context(), &store.RequestError{Err: store.ErrRequestCompleted}, "refused"},
		{t.Context(), throttled, "throttled"},
		{late, throttled, "throttled"},
		{canceled, throttled, "canceled"},
		{late, errors.New("deadline"), "timeout"},
		{t.Context(), context.DeadlineExceeded, "timeout"},
		{t.Context(), errors.New("connection refused"), "error"},
	} {
		err := call.err
		if err != nil {
			err = fmt.Errorf("calling the store: %w", err)
		}
		if got := isr.OutcomeOf(call.ctx, err); got != call.want {
			t.Errorf("%v: %q, want %q", err, got, call.want)
		}
	}
}
