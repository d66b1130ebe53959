package wire

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

const (
	codeSerialization = "SerializationException"
	codeTooLarge      = "RequestEntityTooLargeException"
)

// clientFault returns a protocol error for which the SDK has no type.
func clientFault(code, format string, args ...any) error {
	return &smithy.GenericAPIError{Code: code, Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

func validation(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

// malformed returns a SerializationException: the body does not have the shape of the
// operation's input.
func malformed(message string) error {
	return &smithy.GenericAPIError{Code: codeSerialization, Message: message, Fault: smithy.FaultClient}
}

// notJSON converts an error of the JSON decoder to a SerializationException, and nil to
// nil.
func notJSON(err error) error {
	if err == nil {
		return nil
	}
	return malformed("Unexpected token received from parser: " + err.Error())
}

func isAPIError(err error) bool {
	var e smithy.APIError
	return errors.As(err, &e)
}

func isServerFault(err error) bool {
	var e smithy.APIError
	return errors.As(err, &e) && e.ErrorFault() == smithy.FaultServer
}

// errorCodec encodes errors as AWS does: the qualified type, the message under the
// member name of that type, and the type's other members.
type errorCodec struct {
	// namespaces has the namespaces of the types that are not DynamoDB's.
	namespaces map[string]string
	// capital has the types whose message member is "Message", not "message".
	capital map[string]bool
	// cancellation is the plan for a list of cancellation reasons.
	cancellation *plan
}

const (
	namespaceDynamoDB     = "com.amazonaws.dynamodb.v20120810#"
	namespaceService      = "com.amazon.coral.service#"
	namespaceValidate     = "com.amazon.coral.validate#"
	namespaceAvailability = "com.amazon.coral.availability#"
)

func newErrorCodec(structs plans) (errorCodec, error) {
	cancellation, err := structs.of(reflect.TypeFor[[]types.CancellationReason]())
	if err != nil {
		return errorCodec{}, err
	}
	return errorCodec{
		namespaces: map[string]string{
			"ValidationException":                 namespaceValidate,
			"ThrottlingException":                 namespaceAvailability,
			"AccessDeniedException":               namespaceService,
			"IncompleteSignatureException":        namespaceService,
			"InvalidSignatureException":           namespaceService,
			"MissingAuthenticationTokenException": namespaceService,
			codeTooLarge:                          namespaceService,
			codeSerialization:                     namespaceService,
			"UnknownOperationException":           namespaceService,
			"UnrecognizedClientException":         namespaceService,
		},
		capital: map[string]bool{
			"IdempotentParameterMismatchException": true,
			"InvalidEndpointException":             true,
			"TransactionCanceledException":         true,
			"TransactionInProgressException":       true,
			codeSerialization:                      true,
		},
		cancellation: cancellation,
	}, nil
}

// encode appends the body for an error and returns it with the HTTP status. An error
// that is not an API error becomes an InternalServerError without details.
func (c errorCodec) encode(dst []byte, err error) ([]byte, int) {
	var e smithy.APIError
	if !errors.As(err, &e) {
		e = &types.InternalServerError{Message: new("Internal server error")}
	}
	code := e.ErrorCode()
	namespace := c.namespaces[code]
	if namespace == "" {
		namespace = namespaceDynamoDB
	}
	dst = append(dst, `{"__type":`...)
	dst = appendString(dst, namespace+code)
	if c.capital[code] {
		dst = append(dst, `,"Message":`...)
	} else {
		dst = append(dst, `,"message":`...)
	}
	dst = appendString(dst, e.ErrorMessage())
	dst = c.details(dst, e)
	return append(dst, '}'), statusOf(e)
}

// details appends the members of a type other than its message.
func (c errorCodec) details(dst []byte, err smithy.APIError) []byte {
	switch e := err.(type) {
	case *types.ConditionalCheckFailedException:
		if e.Item != nil {
			dst = appendAttributes(append(dst, `,"Item":`...), e.Item)
		}
	case *types.TransactionCanceledException:
		if e.CancellationReasons != nil {
			dst = c.cancellation.encode(append(dst, `,"CancellationReasons":`...), reflect.ValueOf(e.CancellationReasons))
		}
	case *types.ProvisionedThroughputExceededException:
		dst = appendThrottling(dst, "ThrottlingReasons", e.ThrottlingReasons)
	case *types.RequestLimitExceeded:
		dst = appendThrottling(dst, "ThrottlingReasons", e.ThrottlingReasons)
	case *types.ThrottlingException:
		dst = appendThrottling(dst, "throttlingReasons", e.ThrottlingReasons)
	}
	return dst
}

// appendThrottling appends throttling reasons, the only struct with lower-case members.
func appendThrottling(dst []byte, name string, reasons []types.ThrottlingReason) []byte {
	if reasons == nil {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return appendList(dst, reasons, func(dst []byte, r types.ThrottlingReason) []byte {
		dst = appendString(append(dst, `{"reason":`...), aws.ToString(r.Reason))
		dst = appendString(append(dst, `,"resource":`...), aws.ToString(r.Resource))
		return append(dst, '}')
	})
}

func statusOf(e smithy.APIError) int {
	switch {
	case e.ErrorFault() == smithy.FaultServer:
		return http.StatusInternalServerError
	case e.ErrorCode() == codeTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
