package s3body

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/facetheory/isr/store"
)

// Delete removes a body. See [store.BodyStore]. In a bucket with versioning, S3
// keeps the old version until a lifecycle rule removes it.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("s3body: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket:              &s.bucket,
		Key:                 &key,
		ExpectedBucketOwner: s.owner,
	})
	// S3 reports no error for a missing key; some servers do.
	if err != nil && !isGone(err) {
		return s.failed("delete", key, err)
	}
	return nil
}

// DeleteBatch removes bodies with one DeleteObjects request. See [store.BatchDeleter]. Servers
// without that request get one for each body.
func (s *Store) DeleteBatch(ctx context.Context, keys []string) (deleted int, err error) {
	in := &s3.DeleteObjectsInput{Bucket: &s.bucket, Delete: &types.Delete{Quiet: aws.Bool(true)}, ExpectedBucketOwner: s.owner}
	for _, key := range keys {
		if err := store.ValidBodyKey(key); err != nil {
			return 0, fmt.Errorf("s3body: %w", err)
		}
		in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: &key})
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.api.DeleteObjects(limited, in)
	switch {
	case isUnsupported(err):
		return store.DeleteBodies(ctx, struct{ store.BodyStore }{s}, keys) // one after the other
	case err != nil:
		return 0, s.failed("delete", fmt.Sprintf("%s and %d more", keys[0], len(keys)-1), err)
	}
	return s.refusedOf(keys, out.Errors)
}

// isUnsupported reports whether the server does not have the request, or wants it otherwise than
// the SDK sends it: some want a Content-MD5 where the SDK sends a CRC-32.
func isUnsupported(err error) bool {
	switch statusOf(err) {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// refusedOf returns the error of the first key that S3 did not delete, and how many are before
// it.
func (s *Store) refusedOf(keys []string, refused []types.Error) (deleted int, err error) {
	deleted = len(keys)
	for _, r := range refused {
		code := aws.ToString(r.Code)
		at := slices.Index(keys, aws.ToString(r.Key))
		if code == noSuchKey || code == notFound || at >= deleted {
			continue
		}
		deleted, err = max(at, 0), fmt.Errorf("%s: %s", code, aws.ToString(r.Message)) // at is -1 if the server names another key
		if code == accessDenied {
			err = fmt.Errorf("%w: %w", store.ErrDenied, err)
		}
	}
	if err != nil {
		return deleted, s.failed("delete", keys[deleted], err)
	}
	return deleted, nil
}
