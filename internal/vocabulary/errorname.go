package vocabulary

import (
	"errors"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// ErrorName returns the name of err that all languages share; empty if it has none or
// err is nil. Of several joined errors it names the one that callers check first.
func ErrorName(err error) string {
	if _, held := errors.AsType[*store.HeldError](err); held {
		return "LeaseHeld"
	}
	if _, malformed := errors.AsType[*dynamostore.MalformedError](err); malformed {
		return "MalformedRow"
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{store.ErrUnknownOutcome, "UnknownOutcome"},
		{store.ErrLeaseLost, "LeaseLost"},
		{store.ErrMoved, "Moved"},
		{store.ErrPinned, "Pinned"},
		{store.ErrPurged, "Purged"},
		{store.ErrNoVersion, "NoVersion"},
		{store.ErrRequestCompleted, "RequestCompleted"},
		{store.ErrRequestInProgress, "RequestInProgress"},
		{store.ErrRequestMismatch, "RequestMismatch"},
		{store.ErrDenied, "Denied"},
		{store.ErrInvalidKey, "InvalidKey"},
		{store.ErrInvalidInput, "InvalidInput"},
		{envelope.ErrTampered, "Tampered"},
		{envelope.ErrNotEncrypted, "NotEncrypted"},
		{envelope.ErrUnknownKey, "UnknownKey"},
		{envelope.ErrMalformed, "MalformedRow"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return ""
}
