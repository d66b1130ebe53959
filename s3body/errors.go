package s3body

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	"github.com/facetheory/isr"
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

// missing turns S3's words for a key that is not there into the contract's. A
// 404 is also said of a missing bucket, and a 403 also of credentials that are
// wrong or have expired: those are failures, or every page would count as lost.
func missing(err error) error {
	if isGone(err) {
		return isr.ErrNotFound
	}
	code := codeOf(err)
	if statusOf(err) == http.StatusForbidden && (code == accessDenied || code == forbidden || code == "") {
		return isr.ErrNotFound
	}
	return err
}

// isGone says that S3 told that there is no object under the key.
func isGone(err error) bool {
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	code := codeOf(err)
	return code == noSuchKey || code == notFound || code == ""
}
