package dynamostore

import (
	"errors"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// OutcomeOf classifies the error of a method of [Store] that writes. Errors that are
// not of this package are classified by [tabletheory.OutcomeOf].
// spec/vectors/outcomes.json lists all of them.
func OutcomeOf(err error) tabletheory.Outcome {
	if errors.Is(err, store.ErrUnknownOutcome) {
		return tabletheory.Unknown // regardless of what it wraps
	}
	if _, held := errors.AsType[*store.HeldError](err); held || isAny(err, store.ErrLeaseLost, store.ErrMoved) {
		return tabletheory.ConditionFailed
	}
	if _, malformed := errors.AsType[*MalformedError](err); malformed || isAny(err,
		store.ErrPinned, store.ErrPurged, store.ErrNoVersion, store.ErrForeignLease, store.ErrDenied,
		store.ErrRequestCompleted, store.ErrRequestInProgress, store.ErrRequestMismatch,
		store.ErrInvalidInput, store.ErrInvalidKey) {
		return tabletheory.Refused
	}
	return tabletheory.OutcomeOf(err)
}

// isAny reports whether err is one of the sentinels.
func isAny(err error, sentinels ...error) bool {
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
