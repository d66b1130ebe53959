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

// clientFault is an error of the protocol itself, for which the SDK has no type.
func clientFault(code, format string, args ...any) error {
	return &smithy.GenericAPIError{Code: code, Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

func validation(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

// malformed says that the body is not what the operation takes.
func malformed(message string) error {
	return &smithy.GenericAPIError{Code: codeSerialization, Message: message, Fault: smithy.FaultClient}
}

// notJSON makes a complaint of the JSON decoder one about the request; nil
// stays nil.
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

// errorCodec writes errors as AWS does: the type in full, the message under
// the name that this type has it under, and what else the type carries.
type errorCodec struct {
	// namespaces are those of the types that are not DynamoDB's own.
	namespaces map[string]string
	// capital are the types whose message is written with a capital.
	capital map[string]bool
	// cancellation is the plan of a list of cancellation reasons.
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

// encode appends the body for an error, and returns it with its status. What
// is no error of the API is a failure of the server, whose particulars are
// not for clients.
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
	dst = c.particulars(dst, e)
	return append(dst, '}'), statusOf(e)
}

// particulars appends what a type has besides its message.
func (c errorCodec) particulars(dst []byte, err smithy.APIError) []byte {
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

// appendThrottling writes the only struct whose members have small letters.
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
