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
	notFound            = "NotFound" // the SDK's word for a 404 to HEAD, which has no body
	accessDenied        = "AccessDenied"
	forbidden           = "Forbidden" // the SDK's word for a 403 to HEAD
	conditionalConflict = "ConditionalRequestConflict"
	operationAborted    = "OperationAborted"
)

// statusOf is the HTTP status that S3 answered with, 0 if it did not answer.
func statusOf(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// codeOf is the code of the error that S3 answered with, empty if it gave none.
func codeOf(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// isUnanswered says that nobody can tell from err whether the request was
// carried out: there was no answer, or one that blames the server.
func isUnanswered(err error) bool {
	status := statusOf(err)
	return status == 0 || status >= http.StatusInternalServerError
}

// isConflict says that the write lost to another one that was under way, and
// should be repeated.
func isConflict(err error) bool {
	if statusOf(err) != http.StatusConflict {
		return false
	}
	code := codeOf(err)
	return code == conditionalConflict || code == operationAborted
}

// contract wraps S3's refusal of access in the contract's error, and its word for
// an object that is gone.
func contract(err error) error {
	switch {
	case isDenied(err):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case isGone(err):
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	return err
}

// isGone says that S3 told that there is no object under the key. It says 404 of a missing
// bucket too, which is a failure, or every page would count as lost.
func isGone(err error) bool {
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	code := codeOf(err)
	return code == noSuchKey || code == notFound || code == ""
}
