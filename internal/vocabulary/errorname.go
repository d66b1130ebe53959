package vocabulary

import (
	"errors"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
)

// ErrorName is the name that err has in every language; empty if it has none, or err
// is nil. Of several errors that are joined it is the one that callers look for first.
func ErrorName(err error) string {
	if _, held := errors.AsType[*isr.HeldError](err); held {
		return "LeaseHeld"
	}
	if _, malformed := errors.AsType[*dynamostore.MalformedError](err); malformed {
		return "MalformedRow"
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{isr.ErrUnknownOutcome, "UnknownOutcome"},
		{isr.ErrLeaseLost, "LeaseLost"},
		{isr.ErrMoved, "Moved"},
		{isr.ErrPinned, "Pinned"},
		{isr.ErrPurged, "Purged"},
		{isr.ErrNoVersion, "NoVersion"},
		{isr.ErrRequestCompleted, "RequestCompleted"},
		{isr.ErrRequestInProgress, "RequestInProgress"},
		{isr.ErrRequestMismatch, "RequestMismatch"},
		{isr.ErrDenied, "Denied"},
		{isr.ErrInvalidKey, "InvalidKey"},
		{isr.ErrInvalidInput, "InvalidInput"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return ""
}
