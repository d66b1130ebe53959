package s3body

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// Puts that conflict with a concurrent write to the key are retried with exponential
// backoff, for at most 8 s in total.
const (
	putAttempts  = 8
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Put stores a body under a new key. See [store.BodyStore]. After an error other than
// ErrExists the body may exist nevertheless.
//
// Put starts no further attempt after [Config.CallTimeout] plus one second per MiB,
// the time that one attempt may take. So a bucket that hangs blocks Put for at most
// three times that.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("s3body: %w", err)
	}
	if err := s.put(ctx, key, body); err != nil {
		return s.failed("put", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key string, body []byte) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := s.putOnce(ctx, key, body)
		switch {
		case err == nil:
			return nil // the commit point: S3 has the whole body, durably
		case statusOf(err) == http.StatusPreconditionFailed:
			// Another writer's body, or ours: the SDK retries a request whose reply was
			// lost, and then meets its own write.
			err = s.compare(ctx, key, body)
			if !isGone(err) {
				return err
			}
			// Deleted between the two requests.
		case isUnanswered(err) && ctx.Err() == nil:
			// The reply was lost, or the server refused a large body and closed the
			// connection before its response could be read. Reading the object tells.
			if there := s.compare(ctx, key, body); there == nil || errors.Is(there, store.ErrExists) {
				return there
			}
			return err
		case !isConflict(err):
			return err
		}
		if attempt == putAttempts || time.Since(started) >= s.putTimeout(body) {
			return fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		mean := backoff.Exponential(firstPause, longestPause, attempt-1)
		if err := backoff.Wait(ctx, backoff.Jitter(mean, rand.Uint64())); err != nil {
			return err
		}
	}
}

// putOnce creates the object unless the key exists.
//
// The checksum is sent as a header. By default the SDK sends it in a trailer, which
// not every S3-compatible server reads.
func (s *Store) putOnce(ctx context.Context, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.putTimeout(body))
	defer cancel()
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(body))
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket:              &s.bucket,
		Key:                 &key,
		Body:                bytes.NewReader(body),
		ContentLength:       aws.Int64(int64(len(body))),
		ContentType:         aws.String("application/octet-stream"),
		ChecksumCRC32:       aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		IfNoneMatch:         aws.String("*"),
		ExpectedBucketOwner: s.owner,
	})
	return err
}

// putTimeout returns the time limit for uploading a body.
func (s *Store) putTimeout(body []byte) time.Duration {
	return s.timeout + time.Duration(len(body)>>20)*time.Second
}

// compare returns nil if the object holds exactly body, and store.ErrExists if it holds
// anything else. S3 has just reported that the object exists, so only a 404 means
// that it was deleted, and a 403 that it may not be read.
func (s *Store) compare(ctx context.Context, key string, body []byte) error {
	r, err := s.download(ctx, key)
	if err != nil {
		return fmt.Errorf("comparing with the existing body: %w", err)
	}
	defer r.Close()
	if r.length != int64(len(body)) {
		return store.ErrExists
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		// The stream delivers exactly length bytes, so body is long enough.
		if !bytes.Equal(buffer[:n], body[:n]) {
			return store.ErrExists
		}
		body = body[n:]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("comparing with the existing body: %w", err)
		}
	}
}
