package tabletheory

import (
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// An Outcome is what the answer to a write says about the write.
type Outcome int

// The outcomes.
const (
	// Applied: it happened.
	Applied Outcome = iota
	// ConditionFailed: it did not happen, because its condition was false.
	ConditionFailed
	// Refused: it did not happen, and would not if it were repeated.
	Refused
	// Cancelled: it did not happen, because of something that passes (another
	// transaction on the item, capacity); a new attempt is a new request.
	Cancelled
	// Unknown: nobody can tell whether it happened or still will. The same
	// request may be repeated if it is idempotent.
	//
	// Throttling counts as unknown, although DynamoDB says it of requests that
	// it did not carry out: the SDK retries by itself and shows the last answer
	// alone, and the reply to an attempt before it may have been lost.
	Unknown
)

// String returns the outcome in a word or two.
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

// OutcomeOf judges the error of one write, whether this package, the SDK or
// package localdynamo has returned it. It goes by types and codes, never by
// message texts, which differ between regions and engines.
//
// A batch that was not carried out whole is Unknown, unless nothing of it was
// sent: some of its writes may have happened.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, ErrInvalidModel), errors.Is(err, ErrInvalidQuery), errors.Is(err, ErrUnsupported), errors.Is(err, ErrItemNotFound):
		return Refused // no write left this process
	}
	if errors.Is(err, ErrUnknownOutcome) {
		return Unknown // whatever it wraps
	}
	if failed, ok := errors.AsType[definiteError](err); ok && failed.Definite() {
		return Refused
	}
	if batch, ok := errors.AsType[*BatchError](err); ok && batch.Written > 0 {
		return Unknown
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return outcomeOfReasons(canceled.CancellationReasons)
	}
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return Refused // never left this process
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return Unknown // network, deadline, cancellation, an answer that cannot be read
	}
	return outcomeOfAnswer(api, err)
}

// A definiteError is what package localdynamo returns if its disk is full, or its file
// is damaged. What goes through HTTP is an InternalServerError like any other.
type definiteError interface {
	error
	Definite() bool
}

func outcomeOfAnswer(api smithy.APIError, err error) Outcome {
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
		// Server faults, whose status a client that is not the SDK's does not tell.
		"InternalServerError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException":
		return Unknown
	}
	return Refused
}

// isConflict reports whether DynamoDB says that another writer is at work on the
// item: a transaction, or another region.
func isConflict(code string) bool {
	return code == "TransactionConflictException" || code == "ReplicatedWriteConflictException"
}

// isThrottling reports whether DynamoDB says that the table or the account is at
// the limit of its capacity: by one of the names that SDKs know, or by the status.
func isThrottling(code string, err error) bool {
	switch code {
	case "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling",
		"ThrottledException", "RequestThrottled", "RequestThrottledException", "TooManyRequestsException":
		return true
	}
	return statusOf(err) == http.StatusTooManyRequests
}

// statusOf is the HTTP status that DynamoDB answered with; 0 if it is not known.
func statusOf(err error) int {
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok {
		return 0
	}
	return response.HTTPStatusCode()
}

// outcomeOfReasons judges a cancelled transaction by all of its actions. It
// certainly did not happen; the question is whether it is worth repeating.
//
// A failed condition decides even if another action met a conflict: what
// conditions demand (the token of a lease, an unchanged version) does not come
// back.
func outcomeOfReasons(reasons []types.CancellationReason) Outcome {
	outcome := Refused
	for _, reason := range reasons {
		code := aws.ToString(reason.Code)
		if code == codeConditionFailed {
			return ConditionFailed
		}
		if passes(code) {
			outcome = Cancelled
		}
	}
	return outcome
}

// Codes of reasons for which transactions are cancelled.
const (
	codeNone            = "None"
	codeConditionFailed = "ConditionalCheckFailed"
	codeConflict        = "TransactionConflict"
	codeThrottled       = "ThrottlingError"
	codeCapacity        = "ProvisionedThroughputExceeded"
	codeServerError     = "InternalServerError"
)

// passes says that what a reason is about may be over at the next attempt.
func passes(code string) bool {
	switch code {
	case codeConflict, codeThrottled, codeCapacity, codeServerError:
		return true
	}
	return false
}

// isWorthRepeating says that a transaction may go through at the next attempt:
// that its answer does not tell whether it happened, or that it was cancelled
// for nothing but reasons that pass.
func isWorthRepeating(err error) bool {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		outcome := OutcomeOf(err)
		return outcome == Cancelled || outcome == Unknown
	}
	passing := false
	for _, reason := range canceled.CancellationReasons {
		code := aws.ToString(reason.Code)
		switch {
		case passes(code):
			passing = true
		case code != codeNone && code != "":
			return false
		}
	}
	return passing
}
