package s3body

import (
	"context"
	"errors"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// List yields the bodies whose keys begin with prefix, at most 1,000 per request. See
// [store.BodyStore]. It skips objects whose keys are not valid for bodies, such as
// the "folders" that some tools create.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix, ExpectedBucketOwner: s.owner}
		for {
			out, err := s.listPage(ctx, in)
			if err == nil && aws.ToBool(out.IsTruncated) && aws.ToString(out.NextContinuationToken) == "" {
				err = errors.New("the listing is truncated, but the server sent no continuation token")
			}
			if err != nil {
				yield(store.BodyInfo{}, s.failed("list", prefix, err))
				return
			}
			listed, _ := awsmiddleware.GetServerTime(out.ResultMetadata) // zero if there is no Date
			for _, object := range out.Contents {
				key := aws.ToString(object.Key)
				if store.ValidBodyKey(key) != nil {
					continue
				}
				info := store.BodyInfo{Key: key, Length: aws.ToInt64(object.Size), ModifiedAt: aws.ToTime(object.LastModified), ListedAt: listed}
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
