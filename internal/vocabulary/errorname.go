package vocabulary

import (
	"errors"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// ErrorName is the name that err has in every language; empty if it has none, or err
// is nil. Of several errors that are joined it is the one that callers look for first.
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
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return ""
}
