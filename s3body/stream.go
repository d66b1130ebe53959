package s3body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/facetheory/isr/store"
)

// A stream is one response to a GET. It fails if S3 sends nothing for the store's
// timeout, either in response to the request or while a Read waits. Time between Reads
// does not count.
type stream struct {
	ctx     context.Context // of the request; its cause reveals a stall
	cancel  context.CancelCauseFunc
	timeout time.Duration
	timer   *time.Timer // cancels
	body    io.ReadCloser

	presentation store.Presentation // of the object
	part         string             // Content-Range of the response; empty: it has the whole object
	etag         string             // of the object
}

// get starts to read an object, and returns the length of what follows.
func (s *Store) get(ctx context.Context, object string) (*stream, int64, error) {
	return s.request(ctx, &s3.GetObjectInput{
		Key:          &object,
		ChecksumMode: types.ChecksumModeEnabled, // the SDK then verifies it
	})
}

// request starts to read what in names of the store's bucket, and returns the length of what follows.
func (s *Store) request(ctx context.Context, in *s3.GetObjectInput) (*stream, int64, error) {
	st := &stream{timeout: s.timeout}
	st.ctx, st.cancel = context.WithCancelCause(ctx)
	st.timer = time.AfterFunc(s.timeout, func() {
		st.cancel(fmt.Errorf("S3 sent nothing for %v: %w", s.timeout, context.DeadlineExceeded))
	})
	in.Bucket, in.ExpectedBucketOwner = &s.bucket, s.owner
	out, err := s.api.GetObject(st.ctx, in)
	st.timer.Stop()
	if err == nil {
		st.body, st.presentation = out.Body, presentationOf(out.Metadata)
		st.part, st.etag = aws.ToString(out.ContentRange), aws.ToString(out.ETag)
		if out.ContentLength == nil || *out.ContentLength < 0 {
			err = errNoLength
		}
	}
	if err != nil {
		err = st.explain(err)
		return nil, 0, errors.Join(err, st.Close())
	}
	return st, *out.ContentLength, nil
}

func (st *stream) Read(p []byte) (int, error) {
	st.timer.Reset(st.timeout)
	n, err := st.body.Read(p)
	st.timer.Stop()
	if err != nil {
		err = st.explain(err)
	}
	return n, err
}

// explain returns the cause if the request was cancelled, and err otherwise. The SDK's
// own error would look as if the caller had cancelled.
func (st *stream) explain(err error) error {
	if cause := context.Cause(st.ctx); cause != nil && !errors.Is(err, io.EOF) {
		return cause
	}
	return err
}

// Close closes the connection, or returns it to the pool if the response was read to
// its end.
func (st *stream) Close() error {
	st.timer.Stop()
	var err error
	if st.body != nil {
		err = st.body.Close()
	}
	st.cancel(nil)
	return err
}
