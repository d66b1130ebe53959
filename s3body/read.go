package s3body

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/facetheory/isr"
)

// Open opens a body. See [isr.BodyStore]. The key may also be an address
// "s3://bucket/key" in the store's bucket. Reading ends with an error when ctx
// ends, when the connection ends before the stated length, and, at the end, when
// the body does not match the checksum that S3 keeps of it.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	object, err := s.objectKey(key)
	if err != nil {
		return nil, 0, err
	}
	r, length, err := s.get(ctx, object)
	if err != nil {
		return nil, 0, s.failed("open", key, missing(err))
	}
	return r, length, nil
}

// Stat describes a body. See [isr.BodyStore]. The key may also be an address
// "s3://bucket/key" in the store's bucket.
func (s *Store) Stat(ctx context.Context, key string) (isr.BodyInfo, error) {
	object, err := s.objectKey(key)
	if err != nil {
		return isr.BodyInfo{}, err
	}
	out, err := s.api.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket:              &s.bucket,
		Key:                 &object,
		ExpectedBucketOwner: s.owner,
	})
	if err != nil {
		return isr.BodyInfo{}, s.failed("stat", key, missing(err))
	}
	if out.ContentLength == nil {
		return isr.BodyInfo{}, s.failed("stat", key, errNoLength)
	}
	return isr.BodyInfo{Key: key, Length: *out.ContentLength, ModifiedAt: aws.ToTime(out.LastModified)}, nil
}

var errNoLength = errors.New("the server does not state the length")

func (s *Store) get(ctx context.Context, object string) (io.ReadCloser, int64, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{
		Bucket:              &s.bucket,
		Key:                 &object,
		ChecksumMode:        types.ChecksumModeEnabled, // the SDK then verifies it
		ExpectedBucketOwner: s.owner,
	})
	if err != nil {
		return nil, 0, err
	}
	if out.ContentLength == nil || *out.ContentLength < 0 {
		return nil, 0, errors.Join(errNoLength, out.Body.Close())
	}
	length := *out.ContentLength
	return &boundedBody{name: "s3://" + s.bucket + "/" + object, body: out.Body, length: length, left: length}, length, nil
}

// A boundedBody delivers exactly the stated length, or an error.
type boundedBody struct {
	name   string // for messages
	body   io.ReadCloser
	length int64
	left   int64 // not yet delivered
	end    error // what every Read returns from now on, nil while there is more
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.end != nil || len(p) == 0 {
		return 0, b.end
	}
	n := 0
	var err error
	if b.left > 0 {
		n, err = b.body.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
	}
	if b.left == 0 && err == nil {
		err = b.expectEnd()
	}
	b.end = b.explain(err)
	return n, b.end
}

// expectEnd reads on behind the last byte. It is at the end that the SDK
// compares the checksum, so a caller that stops at the length must not miss it.
func (b *boundedBody) expectEnd() error {
	n, err := io.ReadFull(b.body, make([]byte, 1))
	if n > 0 {
		return errors.New("more follows")
	}
	return err
}

func (b *boundedBody) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && b.left == 0:
		return io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("s3body: reading %s, after %d of %d bytes: %w", b.name, b.length-b.left, b.length, err)
}

// Close closes the connection, or gives it back if the body was read to its end.
func (b *boundedBody) Close() error { return b.body.Close() }
