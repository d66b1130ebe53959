package tabletheory

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// An Outcome is what the reply to a write tells about the write.
type Outcome int

// The outcomes.
const (
	// Applied: the write happened.
	Applied Outcome = iota
	// ConditionFailed: the write did not happen because its condition was false.
	ConditionFailed
	// Refused: the write did not happen, and a retry would fail too.
	Refused
	// Cancelled: the write did not happen for a transient reason (another
	// transaction on the item, capacity). A retry is a new request.
	Cancelled
	// Unknown: the write may have happened, or may still happen. The request may be
	// retried if it is idempotent.
	//
	// Throttling is Unknown although DynamoDB does not apply throttled requests:
	// the SDK retries and returns only the last reply, and the reply to an earlier
	// attempt may have been lost.
	Unknown
)

// String returns the outcome in lower case, such as "condition failed".
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case ConditionFailed:
		return "condition failed"
	case Refused:
		return "refused"
	case Cancelled:
		return "cancelled"
	case Unknown:
	}
	return "unknown"
}

// OutcomeOf classifies the error of one write, returned by this package, the SDK
// or package localdynamo. It uses types and codes, never message texts, which
// differ between regions and engines.
//
// An incomplete batch is Unknown, unless nothing of it was sent: some of its
// writes may have happened. A request whose context was done before it was sent is
// Refused.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, ErrInvalidModel), errors.Is(err, ErrInvalidQuery), errors.Is(err, ErrUnsupported), errors.Is(err, ErrItemNotFound):
		return Refused // nothing was sent
	}
	if errors.Is(err, ErrUnknownOutcome) {
		return Unknown // regardless of what it wraps
	}
	if batch, ok := errors.AsType[*BatchError](err); ok && batch.Written > 0 {
		return Unknown // whatever became of the rest
	}
	if failed, ok := errors.AsType[definiteError](err); ok && failed.Definite() {
		return Refused
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return outcomeOfReasons(canceled.CancellationReasons)
	}
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return Refused // nothing was sent
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return Unknown // network error, deadline, cancellation, unreadable reply
	}
	return outcomeOfReply(api, err)
}

// A definiteError is an unsentError, or what package localdynamo returns if its disk is
// full or its file is damaged. Over HTTP the latter is an ordinary InternalServerError.
type definiteError interface {
	error
	Definite() bool
}

// An unsentError is a request that was not sent, because its context was done before.
type unsentError struct {
	cause error
}

// errUnsent returns an unsentError if a context is done; nil otherwise. Callers have sent
// nothing, or only what has certainly not been applied.
func errUnsent(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &unsentError{err}
	}
	return nil
}

func (e *unsentError) Error() string { return "not sent: " + e.cause.Error() }

// Unwrap returns the error of the context.
func (e *unsentError) Unwrap() error { return e.cause }

// Definite is for OutcomeOf.
func (*unsentError) Definite() bool { return true }

func outcomeOfReply(api smithy.APIError, err error) Outcome {
	code := api.ErrorCode()
	switch {
	case code == "ConditionalCheckFailedException":
		return ConditionFailed
	case isConflict(code):
		return Cancelled
	case isThrottling(code, err), statusOf(err) >= http.StatusInternalServerError, api.ErrorFault() == smithy.FaultServer:
		return Unknown
	}
	switch code {
	case "TransactionInProgressException", "RequestTimeout", "RequestTimeoutException",
		// Server faults; only the SDK's own client has their HTTP status.
		"InternalServerError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException":
		return Unknown
	}
	return Refused
}

// isConflict reports whether the code means a concurrent writer of the item: a
// transaction or another region.
func isConflict(code string) bool {
	return code == "TransactionConflictException" || code == "ReplicatedWriteConflictException"
}

// isThrottling reports whether the table or the account has reached the limit of
// its capacity, by the codes that SDKs know or by the HTTP status.
func isThrottling(code string, err error) bool {
	switch code {
	case "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling",
		"ThrottledException", "RequestThrottled", "RequestThrottledException", "TooManyRequestsException":
		return true
	}
	return statusOf(err) == http.StatusTooManyRequests
}

// statusOf returns the HTTP status of the reply; 0 if it is not known.
func statusOf(err error) int {
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok {
		return 0
	}
	return response.HTTPStatusCode()
}

// outcomeOfReasons classifies a cancelled transaction by the reasons of all its
// actions. The transaction did not happen; the outcome tells whether to retry.
//
// A failed condition decides even if another action had a conflict: conditions
// on a lease token or an unchanged version do not become true again.
func outcomeOfReasons(reasons []types.CancellationReason) Outcome {
	outcome := Refused
	for _, reason := range reasons {
		code := aws.ToString(reason.Code)
		if code == codeConditionFailed {
			return ConditionFailed
		}
		if isTransient(code) {
			outcome = Cancelled
		}
	}
	return outcome
}

// Codes of cancellation reasons.
const (
	codeNone            = "None"
	codeConditionFailed = "ConditionalCheckFailed"
	codeConflict        = "TransactionConflict"
	codeThrottled       = "ThrottlingError"
	codeCapacity        = "ProvisionedThroughputExceeded"
	codeServerError     = "InternalServerError"
)

// isTransient reports whether a reason may be gone at the next attempt.
func isTransient(code string) bool {
	switch code {
	case codeConflict, codeThrottled, codeCapacity, codeServerError:
		return true
	}
	return false
}

// isRetryable reports whether a retry of a transaction may succeed: its outcome
// is unknown, or all reasons of its cancellation are transient.
func isRetryable(err error) bool {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		outcome := OutcomeOf(err)
		return outcome == Cancelled || outcome == Unknown
	}
	passing := false
	for _, reason := range canceled.CancellationReasons {
		code := aws.ToString(reason.Code)
		switch {
		case isTransient(code):
			passing = true
		case code != codeNone && code != "":
			return false
		}
	}
	return passing
}
