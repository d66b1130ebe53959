package s3body

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/store"
)

// Codes of S3 errors (Amazon S3 API Reference, "Error responses").
const (
	noSuchBucket        = "NoSuchBucket"
	noSuchKey           = "NoSuchKey"
	notFound            = "NotFound" // the SDK's code for a 404 to HEAD, which has no body
	accessDenied        = "AccessDenied"
	forbidden           = "Forbidden" // the SDK's code for a 403 to HEAD
	conditionalConflict = "ConditionalRequestConflict"
	operationAborted    = "OperationAborted"
)

// statusOf returns the HTTP status of S3's response, 0 if there was no response.
func statusOf(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// codeOf returns the code of S3's error, empty if it has none.
func codeOf(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// isUnanswered reports whether the outcome of the request is unknown: no response
// arrived, or a server error.
func isUnanswered(err error) bool {
	status := statusOf(err)
	return status == 0 || status >= http.StatusInternalServerError
}

// isConflict reports whether the write conflicted with a concurrent one and should be
// retried.
func isConflict(err error) bool {
	if statusOf(err) != http.StatusConflict {
		return false
	}
	code := codeOf(err)
	return code == conditionalConflict || code == operationAborted
}

// contract wraps S3's errors for refused access and missing objects in the
// contract's.
func contract(err error) error {
	switch {
	case isDenied(err):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case isGone(err):
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	return err
}

// isGone reports whether S3 said that the object does not exist. S3 also answers 404 if
// the bucket is missing. That is a failure: otherwise every page would count as lost.
func isGone(err error) bool {
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	code := codeOf(err)
	return code == noSuchKey || code == notFound || code == ""
}
