package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/facetheory/isr/tabletheory"
)

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want tabletheory.Outcome
	}{
		{nil, tabletheory.Applied},
		{&types.ConditionalCheckFailedException{}, tabletheory.ConditionFailed},
		{&types.TransactionConflictException{}, tabletheory.Cancelled},
		{&types.ReplicatedWriteConflictException{}, tabletheory.Cancelled},
		{&types.TransactionInProgressException{}, tabletheory.Unknown},
		{&types.ProvisionedThroughputExceededException{}, tabletheory.Unknown},
		{&types.RequestLimitExceeded{}, tabletheory.Unknown},
		{&types.ThrottlingException{}, tabletheory.Unknown},
		{&types.InternalServerError{}, tabletheory.Unknown},
		{fmt.Errorf("put: %w", &fullDisk{&types.InternalServerError{}}), tabletheory.Refused},
		{&types.ResourceNotFoundException{}, tabletheory.Refused},
		{&types.IdempotentParameterMismatchException{}, tabletheory.Refused},
		{&types.ItemCollectionSizeLimitExceededException{}, tabletheory.Refused},
		{&smithy.GenericAPIError{Code: "ValidationException"}, tabletheory.Refused},
		{&smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}, tabletheory.Refused},
		{&smithy.GenericAPIError{Code: "NewInSomeYears", Fault: smithy.FaultServer}, tabletheory.Unknown},
		{&smithy.GenericAPIError{Code: "ServiceUnavailable"}, tabletheory.Unknown},
		{answer(500, &smithy.GenericAPIError{Code: "Surprise"}), tabletheory.Unknown},
		{answer(400, &smithy.GenericAPIError{Code: "Surprise"}), tabletheory.Refused},
		{&smithy.InvalidParamsError{}, tabletheory.Refused},
		{io.ErrUnexpectedEOF, tabletheory.Unknown},
		{context.Canceled, tabletheory.Unknown},
		{context.DeadlineExceeded, tabletheory.Unknown},
		{errors.New("no credentials"), tabletheory.Unknown},
		{reasons("ConditionalCheckFailed", "None"), tabletheory.ConditionFailed},
		{reasons("None", "ConditionalCheckFailed"), tabletheory.ConditionFailed},
		{reasons("TransactionConflict", "ConditionalCheckFailed"), tabletheory.ConditionFailed},
		{reasons("None", "TransactionConflict"), tabletheory.Cancelled},
		{reasons("ThrottlingError", "None"), tabletheory.Cancelled},
		{reasons("None", "ProvisionedThroughputExceeded"), tabletheory.Cancelled},
		{reasons("InternalServerError"), tabletheory.Cancelled},
		{reasons("ValidationError", "None"), tabletheory.Refused},
		{reasons("ItemCollectionSizeLimitExceeded", "None"), tabletheory.Refused},
		{reasons(), tabletheory.Refused},
		{tabletheory.ErrInvalidQuery, tabletheory.Refused},
		{tabletheory.ErrInvalidModel, tabletheory.Refused},
		{tabletheory.ErrUnsupported, tabletheory.Refused},
		{&tabletheory.BatchError{Written: 25, Total: 30}, tabletheory.Unknown},
		{fmt.Errorf("%w: %w", &tabletheory.BatchError{Written: 25, Total: 30}, &fullDisk{io.ErrShortWrite}), tabletheory.Unknown},
		{fmt.Errorf("%w: %w", &tabletheory.BatchError{Total: 30}, &fullDisk{io.ErrShortWrite}), tabletheory.Refused},
	} {
		if got := tabletheory.OutcomeOf(test.err); got != test.want {
			t.Errorf("OutcomeOf(%v) is %v, want %v", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		wrapped := fmt.Errorf("tried twice: %w", &smithy.OperationError{Err: test.err})
		if got := tabletheory.OutcomeOf(wrapped); got != test.want {
			t.Errorf("OutcomeOf(%v) is %v, want %v", wrapped, got, test.want)
		}
	}
}

func TestOutcomeString(t *testing.T) {
	t.Parallel()
	names := map[string]tabletheory.Outcome{}
	for _, outcome := range []tabletheory.Outcome{
		tabletheory.Applied, tabletheory.ConditionFailed, tabletheory.Refused, tabletheory.Cancelled, tabletheory.Unknown,
	} {
		if other, taken := names[outcome.String()]; taken {
			t.Errorf("outcomes %d and %d are both called %q", other, outcome, outcome)
		}
		names[outcome.String()] = outcome
	}
}

// fullDisk is an error of an engine that has certainly written nothing.
type fullDisk struct{ error }

func (e *fullDisk) Unwrap() error  { return e.error }
func (e *fullDisk) Definite() bool { return true }

func reasons(codes ...string) error {
	canceled := &types.TransactionCanceledException{}
	for _, code := range codes {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return canceled
}

func answer(status int, err error) error {
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err,
	}
}
