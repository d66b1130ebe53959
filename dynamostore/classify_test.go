package dynamostore

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
)

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		err  error
		want verdict
	}{
		{nil, applied},
		{&types.ConditionalCheckFailedException{}, conditionFailed},
		{&types.TransactionConflictException{}, cancelled},
		{&types.ReplicatedWriteConflictException{}, cancelled},
		{&types.TransactionInProgressException{}, unknown},
		{&types.ProvisionedThroughputExceededException{}, unknown},
		{&types.RequestLimitExceeded{}, unknown},
		{&types.ThrottlingException{}, unknown},
		{&types.InternalServerError{}, unknown},
		{&types.ResourceNotFoundException{}, refused},
		{&types.IdempotentParameterMismatchException{}, refused},
		{&types.ItemCollectionSizeLimitExceededException{}, refused},
		{&smithy.GenericAPIError{Code: "ValidationException"}, refused},
		{&smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}, refused},
		{&smithy.GenericAPIError{Code: "NewInSomeYears", Fault: smithy.FaultServer}, unknown},
		{&smithy.GenericAPIError{Code: "ServiceUnavailable"}, unknown},
		{response(500, &smithy.GenericAPIError{Code: "Surprise"}), unknown},
		{response(400, &smithy.GenericAPIError{Code: "Surprise"}), refused},
		{&smithy.InvalidParamsError{}, refused},
		{io.ErrUnexpectedEOF, unknown},
		{context.Canceled, unknown},
		{context.DeadlineExceeded, unknown},
		{errors.New("no credentials"), unknown},
		{reasons("ConditionalCheckFailed", "None"), conditionFailed},
		{reasons("None", "ConditionalCheckFailed"), conditionFailed},
		{reasons("TransactionConflict", "ConditionalCheckFailed"), conditionFailed},
		{reasons("None", "TransactionConflict"), cancelled},
		{reasons("ThrottlingError", "None"), cancelled},
		{reasons("None", "ProvisionedThroughputExceeded"), cancelled},
		{reasons("ValidationError", "None"), refused},
		{reasons("ItemCollectionSizeLimitExceeded", "None"), refused},
		{reasons(), refused},
	} {
		if got := classify(test.err); got != test.want {
			t.Errorf("classify(%v) = %d, want %d", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		wrapped := fmt.Errorf("tried twice: %w", &smithy.OperationError{Err: test.err})
		if got := classify(wrapped); got != test.want {
			t.Errorf("classify(%v) = %d, want %d", wrapped, got, test.want)
		}
	}
}

func reasons(codes ...string) error {
	canceled := &types.TransactionCanceledException{}
	for _, code := range codes {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return canceled
}

func response(status int, err error) error {
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err,
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		digits      string
		floor, ceil int64
	}{
		{"0", 0, 0},
		{"7", 7, 7},
		{"-7", -7, -7},
		{"1700000000.000000001", 1700000000, 1700000001},
		{"1700000000.999999999999999999", 1700000000, 1700000001},
		{"1700000000.0", 1700000000, 1700000000},
		{"-0.5", -1, 0},
		{"-1.5", -2, -1},
		{"0.00000000000000000000000001", 0, 1},
		{"1.5E+3", 1500, 1500},
		{"1.5e-3", 0, 1},
		{"1e126", saturation, saturation},
		{"-1e126", -saturation, -saturation},
		{"99999999999999999999999999999999999999", saturation, saturation},
		{"-99999999999999999999999999999999999999.5", -saturation, -saturation},
		{"9223372036854775807", saturation, saturation},
		{"-9223372036854775808", -saturation, -saturation},
	} {
		floor, err := floorNumber(test.digits)
		if err != nil || floor != test.floor {
			t.Errorf("floorNumber(%s) = %d, %v; want %d", test.digits, floor, err, test.floor)
		}
		ceil, err := ceilNumber(test.digits)
		if err != nil || ceil != test.ceil {
			t.Errorf("ceilNumber(%s) = %d, %v; want %d", test.digits, ceil, err, test.ceil)
		}
	}
	for _, digits := range []string{"", "x", "1.x", "--1", "NaN", "1e"} {
		if n, err := floorNumber(digits); err == nil {
			t.Errorf("floorNumber(%q) = %d, want an error", digits, n)
		}
	}
}

func FuzzFloorNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0.5", "1e126", "9223372036854775807", "1.7E9", "-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, digits string) {
		floor, err := floorNumber(digits)
		if err != nil {
			return
		}
		ceil, err := ceilNumber(digits)
		if err != nil {
			return // "+1", which DynamoDB does not write
		}
		if floor < -saturation-1 || ceil > saturation+1 || ceil < floor || ceil > floor+1 {
			t.Errorf("%q: floor %d, ceil %d", digits, floor, ceil)
		}
	})
}
