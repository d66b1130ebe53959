package s3body

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// CheckBucket writes this object and leaves it in the bucket. The content never
// changes, so that every version of isr accepts it.
const (
	checkKey     = "isr-check"
	checkContent = "Written by isr to see that it can write to and read from this bucket.\n"
	checkTimeout = 30 * time.Second
)

// CheckBucket checks that bodies can be written, read back, and not overwritten. It
// makes three requests, takes at most 30 s, and leaves the object "isr-check" in the
// bucket. Its error is one line that names the fault and the remedy.
func (s *Store) CheckBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := s.checkBucket(ctx); err != nil {
		return fmt.Errorf("s3body: bucket %s: %w", s.bucket, err)
	}
	return nil
}

func (s *Store) checkBucket(ctx context.Context) error {
	content := []byte(checkContent)
	err := s.put(ctx, checkKey, content)
	if errors.Is(err, store.ErrExists) {
		return &BucketError{Problem: fmt.Sprintf("the object %s has content that isr did not write", checkKey), Do: "delete it"}
	}
	if err != nil {
		return advise(err)
	}
	if err := s.compare(ctx, checkKey, content); err != nil {
		return advise(err)
	}
	err = s.putOnce(ctx, checkKey, content)
	switch {
	case err == nil:
		return &BucketError{Problem: "the server ignores If-None-Match and would overwrite bodies", Do: "use one with conditional writes"}
	case statusOf(err) == http.StatusPreconditionFailed:
		return nil
	}
	return advise(err)
}

// A BucketError is a fault of a bucket.
type BucketError struct {
	Problem, Do string // what is wrong, and what to do about it
	err         error  // may be nil
}

// Error returns one line.
func (e *BucketError) Error() string {
	if e.err == nil {
		return e.Problem + "; " + e.Do
	}
	return e.Problem + "; " + e.Do + ": " + e.err.Error()
}

// Unwrap returns the error of S3.
func (e *BucketError) Unwrap() error { return e.err }

// advise returns err in one line, with its meaning and the remedy.
func advise(err error) error {
	status, code := statusOf(err), codeOf(err)
	var send *url.Error
	switch {
	case strings.Contains(err.Error(), "get identity:"):
		return &BucketError{"no AWS credentials found", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role", oneLine{err}}
	case code == noSuchBucket:
		return &BucketError{"the bucket does not exist", "create it, or correct its name, region or endpoint", oneLine{err}}
	case slices.Contains(refusedCredentials(), code):
		return &BucketError{"AWS refused the credentials", "correct or renew them", oneLine{err}}
	case code == "RequestTimeTooSkewed":
		return &BucketError{"the clock of this machine is wrong", "set it", oneLine{err}}
	case code == "PermanentRedirect", code == "AuthorizationHeaderMalformed", code == "IllegalLocationConstraintException", status == http.StatusMovedPermanently:
		return &BucketError{"the bucket is in another region", "set the region to the bucket's", oneLine{err}}
	case status == http.StatusForbidden:
		return &BucketError{"permission is missing", "allow s3:PutObject and s3:GetObject on all its objects", oneLine{err}}
	case status == 0 && errors.As(err, &send):
		return &BucketError{"cannot connect to S3", "correct the endpoint or the network", oneLine{send}}
	}
	return oneLine{err}
}

// refusedCredentials are the codes for refused keys, signatures and session tokens.
// The last one is versitygw's for an unknown access key.
func refusedCredentials() []string {
	return []string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "XAdminUserNotFound"}
}

// oneLine removes line breaks from an error's text.
type oneLine struct{ err error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.err.Error()), " ") }
func (e oneLine) Unwrap() error { return e.err }
