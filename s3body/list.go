package s3body

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

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
	// S3 itself says nothing of a key that is not there; some servers do.
	if err != nil && !isGone(err) {
		return s.failed("delete", key, err)
	}
	return nil
}

// List yields the bodies whose keys begin with prefix, by requests for at most
// 1,000 each. See [store.BodyStore]. Objects whose keys cannot be those of bodies
// (the "folders" that some tools make) are passed over.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix, ExpectedBucketOwner: s.owner}
		for {
			out, err := s.listPage(ctx, in)
			if err == nil && aws.ToBool(out.IsTruncated) && aws.ToString(out.NextContinuationToken) == "" {
				err = errors.New("the listing has more, and the server does not say where")
			}
			if err != nil {
				yield(store.BodyInfo{}, s.failed("list", prefix, err))
				return
			}
			for _, object := range out.Contents {
				key := aws.ToString(object.Key)
				if store.ValidBodyKey(key) != nil {
					continue
				}
				info := store.BodyInfo{Key: key, Length: aws.ToInt64(object.Size), ModifiedAt: aws.ToTime(object.LastModified)}
				if !yield(info, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}

func (s *Store) listPage(ctx context.Context, in *s3.ListObjectsV2Input) (*s3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.api.ListObjectsV2(ctx, in)
}
