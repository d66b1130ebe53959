package guard

import (
	"context"
	"errors"
	"strings"

	"github.com/facetheory/isr/store"
)

// OutcomeOf returns the outcome of a store call whose caller has ctx, as a word (see isr.OutcomeOf).
func OutcomeOf(ctx context.Context, err error) string {
	if err == nil {
		return "ok"
	}
	for _, answer := range []struct {
		err     error
		outcome string
	}{
		{store.ErrMoved, "moved"},
		{store.ErrLeaseLost, "lost"},
		{store.ErrForeignLease, "lost"},
		{store.ErrDenied, "denied"},
		{store.ErrNotFound, "not-found"},
		{store.ErrNoVersion, "not-found"},
		{store.ErrNotQuarantined, "not-found"},
		{store.ErrPinned, "refused"},
		{store.ErrPurged, "refused"},
		{store.ErrExists, "refused"},
		{store.ErrInvalidKey, "refused"},
		{store.ErrInvalidInput, "refused"},
	} {
		if errors.Is(err, answer.err) {
			return answer.outcome
		}
	}
	var held *store.HeldError
	var earlier *store.RequestError
	var api interface{ ErrorCode() string } // of AWS
	switch {
	case errors.As(err, &held):
		return "held"
	case errors.As(err, &earlier):
		return "refused"
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case errors.As(err, &api) && isThrottle(api.ErrorCode()):
		return "throttled"
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

// isThrottle reports whether an error code of DynamoDB or S3 says that there were too many
// requests.
func isThrottle(code string) bool {
	return strings.HasPrefix(code, "Throttl") || code == "ProvisionedThroughputExceededException" || code == "RequestLimitExceeded" || code == "SlowDown"
}
