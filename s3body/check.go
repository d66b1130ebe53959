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
		return fmt.Errorf("the object %s has content that isr did not write; delete it", checkKey)
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
		return errors.New("the server ignores If-None-Match and would overwrite bodies; use one with conditional writes")
	case statusOf(err) == http.StatusPreconditionFailed:
		return nil
	}
	return advise(err)
}

// advise returns err in one line, with its meaning and the remedy.
func advise(err error) error {
	status, code := statusOf(err), codeOf(err)
	var send *url.Error
	switch {
	case strings.Contains(err.Error(), "get identity:"):
		return fmt.Errorf("no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role: %w", oneLine{err})
	case code == noSuchBucket:
		return fmt.Errorf("the bucket does not exist; create it, or correct its name, region or endpoint: %w", oneLine{err})
	case slices.Contains(refusedCredentials(), code):
		return fmt.Errorf("AWS refused the credentials; correct or renew them: %w", oneLine{err})
	case code == "RequestTimeTooSkewed":
		return fmt.Errorf("the clock of this machine is wrong; set it: %w", oneLine{err})
	case code == "PermanentRedirect", code == "AuthorizationHeaderMalformed", code == "IllegalLocationConstraintException", status == http.StatusMovedPermanently:
		return fmt.Errorf("the bucket is in another region; set the region to the bucket's: %w", oneLine{err})
	case status == http.StatusForbidden:
		return fmt.Errorf("permission is missing; allow s3:PutObject and s3:GetObject on all its objects: %w", oneLine{err})
	case status == 0 && errors.As(err, &send):
		return fmt.Errorf("cannot connect to S3; correct the endpoint or the network: %w", oneLine{send})
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
