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

// Puts that S3 refuses only because another write to the key is under way are
// tried again, after pauses whose mean doubles: 8 s in all at most.
const (
	putAttempts  = 8
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Put stores a body under a new key. See [store.BodyStore]. When it fails for any
// reason but ErrExists, the body may be there all the same.
//
// It begins no further attempt once it has taken as long as one may,
// [Config.CallTimeout] and a second for each MiB, so that a bucket that hangs
// holds it for three times that at most.
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
			// Another writer's body, or ours: the SDK repeats a request whose
			// reply was lost, and finds what it wrote itself.
			err = s.compare(ctx, key, body)
			if !isGone(err) {
				return err
			}
			// It was deleted between the two requests.
		case isUnanswered(err) && ctx.Err() == nil:
			// The body may be there with the reply lost; or the server refused,
			// and closed the connection on the rest of a large body, before its
			// refusal could be read. What is there tells.
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

// putOnce makes the object if there is none under the key.
//
// The checksum stands in a header of its own. Left to itself, the SDK would send
// it in a trailer after the body, which not every S3-compatible server reads.
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

// putTimeout bounds the upload of a body.
func (s *Store) putTimeout(body []byte) time.Duration {
	return s.timeout + time.Duration(len(body)>>20)*time.Second
}

// compare returns nil if the object holds exactly body, and store.ErrExists if it
// holds anything else. Here, where S3 has just said that there is an object, only
// a 404 means that it is gone, and a 403 that it must not be read.
func (s *Store) compare(ctx context.Context, key string, body []byte) error {
	r, err := s.download(ctx, key)
	if err != nil {
		return fmt.Errorf("comparing with the body that is there: %w", err)
	}
	defer r.Close()
	if r.length != int64(len(body)) {
		return store.ErrExists
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		// The reader is bounded by the length, so body is long enough.
		if !bytes.Equal(buffer[:n], body[:n]) {
			return store.ErrExists
		}
		body = body[n:]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("comparing with the body that is there: %w", err)
		}
	}
}
