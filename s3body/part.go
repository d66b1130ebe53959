package s3body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

var _ store.RangeReader = (*Store)(nil)

// OpenRange opens a part of a body by a range request. See [store.RangeReader]. The key may also be
// an address "s3://bucket/key" in the store's bucket. OpenRange takes at most as long as Open.
//
// If the connection is lost, or a Read receives nothing for [Config.CallTimeout], the reader requests
// the rest, at most twice without receiving anything. S3 sends no checksum of a part.
func (s *Store) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	object, err := s.objectKey(key)
	if err != nil {
		return nil, 0, err
	}
	if offset < 0 || length <= 0 {
		return nil, 0, s.failed("read a part of", key, fmt.Errorf("%w: %d bytes from %d", store.ErrInvalidInput, length, offset))
	}
	p := &part{store: s, ctx: ctx, object: object, next: offset, left: length}
	if err := p.open(); err != nil {
		if err := s.resolve(ctx, object, err, p.open); err != nil {
			return nil, 0, s.failed("read a part of", key, err)
		}
	}
	return p, p.size, nil
}

// A part delivers exactly the bytes of an object that were asked for, or an error.
type part struct {
	store  *Store
	ctx    context.Context // the caller's
	object string
	etag   string  // of the object
	size   int64   // of the object; 0 before the first response
	stream *stream // nil after a lost connection
	next   int64   // the offset of the next byte
	left   int64   // bytes not yet delivered
	vain   int     // how often in a row the rest was requested in vain
}

// open requests the rest.
func (p *part) open() error {
	in := &s3.GetObjectInput{Key: &p.object, Range: aws.String(fmt.Sprintf("bytes=%d-%d", p.next, p.next+p.left-1))}
	if p.etag != "" {
		in.IfMatch = &p.etag
	}
	st, length, err := p.store.request(p.ctx, in)
	if statusOf(err) == http.StatusRequestedRangeNotSatisfiable {
		return fmt.Errorf("%w: the body ends before byte %d: %w", store.ErrInvalidInput, p.next, err)
	}
	if err != nil {
		return err
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(st.part, "bytes %d-%d/%d", &first, &last, &size); err != nil {
		return errors.Join(fmt.Errorf("the server states the part %q: %w", st.part, errNoLength), st.Close())
	}
	err = store.ValidRange(p.next, p.left, size)
	switch {
	case err == nil && (first != p.next || length != p.left):
		err = fmt.Errorf("the server sends %q, %d bytes from %d were requested", st.part, p.left, p.next)
	case err == nil && p.size > 0 && (size != p.size || st.etag != p.etag):
		err = errChanged
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	p.stream, p.size, p.etag = st, size, st.etag
	return nil
}

func (p *part) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := p.read(b[:min(int64(len(b)), p.left)])
		p.next, p.left = p.next+int64(n), p.left-int64(n)
		if n > 0 {
			p.vain = 0
		}
		if n > 0 || err == nil {
			if err != nil {
				p.drop()
			}
			return n, nil
		}
		p.drop()
		if p.vain == maxResumes || p.ctx.Err() != nil || isDefinite(err) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, fmt.Errorf("s3body: reading s3://%s/%s, at %d of %d bytes: %w", p.store.bucket, p.object, p.next, p.size, contract(err))
		}
		p.vain++
		if err := backoff.Wait(p.ctx, backoff.Jitter(backoff.Exponential(firstPause, longestPause, p.vain-1), rand.Uint64())); err != nil {
			return 0, err
		}
	}
}

// read reads from the stream, or from another one if the last failed.
func (p *part) read(b []byte) (int, error) {
	if p.stream == nil {
		if err := p.open(); err != nil {
			return 0, err
		}
	}
	return p.stream.Read(b)
}

// drop closes the stream, which has failed.
func (p *part) drop() {
	if p.stream != nil {
		_ = p.stream.Close() // its error is known
		p.stream = nil
	}
}

// Close closes the reader.
func (p *part) Close() error {
	if p.stream == nil {
		return nil
	}
	return p.stream.Close()
}
