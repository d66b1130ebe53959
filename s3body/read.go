package s3body

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// Open opens a body. See [store.BodyStore]. The key may also be an address
// "s3://bucket/key" in the store's bucket.
//
// Open takes at most [Config.CallTimeout], or four times that if S3 refuses access.
// If the connection is lost, or a Read receives nothing for CallTimeout, the reader
// requests the body again and resumes, at most twice. Read returns an error if that
// fails, if ctx ends, and, at the end, if the body does not match its checksum in S3.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	object, err := s.objectKey(key)
	if err != nil {
		return nil, 0, err
	}
	var d *download
	open := func() (err error) {
		d, err = s.download(ctx, object)
		return err
	}
	if err := open(); err != nil {
		if err := s.resolve(ctx, object, err, open); err != nil {
			return nil, 0, s.failed("open", key, err)
		}
	}
	return d, d.length, nil
}

// Stat describes a body. See [store.BodyStore]. The key may also be an address
// "s3://bucket/key" in the store's bucket. Stat takes at most as long as Open.
func (s *Store) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	object, err := s.objectKey(key)
	if err != nil {
		return store.BodyInfo{}, err
	}
	var out *s3.HeadObjectOutput
	head := func() (err error) {
		out, err = s.head(ctx, object)
		return err
	}
	if err := head(); err != nil {
		if err := s.resolve(ctx, object, err, head); err != nil {
			return store.BodyInfo{}, s.failed("stat", key, err)
		}
	}
	if out.ContentLength == nil {
		return store.BodyInfo{}, s.failed("stat", key, errNoLength)
	}
	return store.BodyInfo{
		Key: key, Length: *out.ContentLength, ModifiedAt: aws.ToTime(out.LastModified), Presentation: presentationOf(out.Metadata),
	}, nil
}

func (s *Store) head(ctx context.Context, object string) (*s3.HeadObjectOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &object, ExpectedBucketOwner: s.owner})
}

// presentationOf returns what the user-defined metadata of an object says of its presentation, under the
// names that FaceTheory's runtime uses.
func presentationOf(metadata map[string]string) store.Presentation {
	return store.Presentation{
		Status:                metadata["facetheory-status"],
		ContentType:           metadata["facetheory-content-type"],
		ContentSecurityPolicy: metadata["facetheory-content-security-policy"],
	}
}

var errNoLength = errors.New("the server does not state the length")

// failed adds the operation, the key and the bucket to an error.
func (s *Store) failed(operation, key string, err error) error {
	return fmt.Errorf("s3body: %s body %q in bucket %s: %w", operation, key, s.bucket, contract(err))
}
