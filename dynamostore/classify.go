package dynamostore

import (
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A verdict is what the answer to a write says about the write.
type verdict int

const (
	// applied: it happened.
	applied verdict = iota
	// conditionFailed: it did not happen, because its condition was false.
	conditionFailed
	// refused: it did not happen, and would not if it were repeated.
	refused
	// cancelled: it did not happen, because of something that passes (another
	// transaction on the row, capacity); a new attempt is a new request.
	cancelled
	// unknown: nobody can tell whether it happened or still will. The same
	// request may be repeated if it is idempotent.
	//
	// Throttling counts as unknown, although DynamoDB says it of requests that
	// it did not carry out: the SDK retries by itself and shows the last answer
	// alone, and the reply to an attempt before it may have been lost.
	unknown
)

// classify judges the error of one call. It goes by types and codes, never by
// message texts, which differ between regions and engines.
func classify(err error) verdict {
	if err == nil {
		return applied
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return classifyReasons(canceled.CancellationReasons)
	}
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return refused // never left this process
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return unknown // network, deadline, cancellation
	}
	switch api.ErrorCode() {
	case "ConditionalCheckFailedException":
		return conditionFailed
	case "TransactionConflictException", "ReplicatedWriteConflictException":
		return cancelled
	case "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling",
		"TransactionInProgressException",
		"InternalServerError", "InternalFailure", "ServiceUnavailable", "RequestTimeout", "RequestTimeoutException":
		return unknown
	}
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.HTTPStatusCode() >= http.StatusInternalServerError {
		return unknown
	}
	if api.ErrorFault() == smithy.FaultServer {
		return unknown
	}
	return refused
}

// classifyReasons judges a cancelled transaction by all of its operations. It
// certainly did not happen; the question is whether it is worth repeating.
//
// A failed condition decides even if another operation met a conflict: what our
// conditions demand (the token of a lease, an unchanged fence) does not come
// back.
func classifyReasons(reasons []types.CancellationReason) verdict {
	result := refused
	for i := range reasons {
		switch reasonCode(reasons, i) {
		case "ConditionalCheckFailed":
			return conditionFailed
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "InternalServerError":
			result = cancelled
		}
	}
	return result
}

// reasonCode is the code of operation i, "None" if it would have passed.
func reasonCode(reasons []types.CancellationReason, i int) string {
	if i >= len(reasons) || reasons[i].Code == nil {
		return "None"
	}
	return aws.ToString(reasons[i].Code)
}
