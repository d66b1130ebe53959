package s3body

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// A 403 is S3's answer to a read of a key that is not there, if the caller may
// not list the bucket, and also its answer to whoever may not read. A body that
// is taken for missing is rendered again, and its pin is overridden, so the
// difference is settled by a second look.
//
//	403 ──► ListObjectsV2 of the key ──► there: denied, not there: missing
//	          │ 403
//	          ▼
//	        GET isr-check ──► 403: denied
//	          │ reads are permitted
//	          ▼
//	        the read again ──► 403: missing
//
// Looks at isr-check are shared, and only by reads that were refused before the
// look began: an earlier look says nothing about a permission that was withdrawn since.

// deniedFor is how long a 403 counts as denied without a second look, once one
// has found that it meant that, and how long the bucket counts as one that may not be listed.
const deniedFor = 2 * time.Second

// isDenied reports whether S3 refused access. A 403 with another code is about
// the credentials. An answer to HEAD has no code.
func isDenied(err error) bool {
	if statusOf(err) != http.StatusForbidden {
		return false
	}
	code := codeOf(err)
	return code == accessDenied || code == forbidden || code == ""
}

// resolve returns the contract's error for a read of an object that failed.
// again repeats the read. After a nil error the repetition has succeeded.
func (s *Store) resolve(ctx context.Context, object string, err error, again func() error) error {
	if isGone(err) {
		return store.ErrNotFound
	}
	if !isDenied(err) || s.access.isDenied() {
		return err
	}
	if s.access.mayList() {
		there, listErr := s.exists(ctx, object)
		switch {
		case listErr == nil && there:
			s.access.deny()
			return err
		case listErr == nil:
			return store.ErrNotFound
		case !isDenied(listErr):
			return fmt.Errorf("%w; looking whether it is there: %w", err, listErr)
		}
		s.access.refuseList()
	}
	if lookErr := s.access.look(ctx, s.readCheckObject); lookErr != nil {
		return fmt.Errorf("%w; reading %s, to see whether reads are permitted: %w", err, checkKey, lookErr)
	}
	// Without this, a refusal that ended before the look would count as a missing body.
	switch err := again(); {
	case err == nil:
		return nil
	case isGone(err) || isDenied(err):
		return store.ErrNotFound
	default:
		return err
	}
}

// exists looks for an object in the listing, where it comes first of all keys that
// begin with its own.
func (s *Store) exists(ctx context.Context, object string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: &object, MaxKeys: aws.Int32(1), ExpectedBucketOwner: s.owner,
	})
	if err != nil {
		return false, err
	}
	return len(out.Contents) > 0 && aws.ToString(out.Contents[0].Key) == object, nil
}

// readCheckObject reads what CheckBucket left.
func (s *Store) readCheckObject(ctx context.Context) error {
	st, _, err := s.get(ctx, checkKey)
	if err != nil {
		if isDenied(err) {
			s.access.deny()
		}
		return err
	}
	return st.Close()
}
