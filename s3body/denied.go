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

// S3 answers 403 to a read of a missing key if the caller may not list the bucket,
// and also to a caller that may not read. A body that is taken for missing is
// rendered again and its pin is overridden, so a second request, the "look",
// tells the two cases apart.
//
//	403 ──► ListObjectsV2 of the key ──► there: denied, not there: missing
//	          │ 403
//	          ▼
//	        GET isr-check ──► 403: denied
//	          │ reads are permitted
//	          ▼
//	        the same read again ──► 403: missing
//
// Reads that were refused before a look of isr-check began share its result. An
// earlier look proves nothing: the permission may have been revoked since.

// deniedFor is how long a denial is cached: until then a 403 counts as denied, or the
// bucket as one that must not be listed, without another request.
const deniedFor = 2 * time.Second

// isDenied reports whether S3 refused access. A 403 with another code concerns the
// credentials. A response to HEAD has no code.
func isDenied(err error) bool {
	if statusOf(err) != http.StatusForbidden {
		return false
	}
	code := codeOf(err)
	return code == accessDenied || code == forbidden || code == ""
}

// resolve classifies the failed read of an object as the contract's error. again
// repeats the read; if that succeeds, resolve returns nil.
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
			return fmt.Errorf("%w; listing the key to see whether it exists: %w", err, listErr)
		}
		s.access.refuseList()
	}
	if lookErr := s.access.look(ctx, s.readCheckObject); lookErr != nil {
		return fmt.Errorf("%w; reading %s, to check whether reads are permitted: %w", err, checkKey, lookErr)
	}
	// The permission may have been restored before the look: without this repetition, the
	// refusal would count as a missing body.
	switch err := again(); {
	case err == nil:
		return nil
	case isGone(err) || isDenied(err):
		return store.ErrNotFound
	default:
		return err
	}
}

// exists lists the object's key, which sorts first among all keys that it is a prefix
// of.
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

// readCheckObject reads the object that CheckBucket wrote.
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
