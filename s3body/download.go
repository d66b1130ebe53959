package s3body

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/rand/v2"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// maxResumes bounds how often a download is resumed after a lost or stalled
// connection.
const maxResumes = 2

// A download delivers exactly the stated length of an object, or an error.
//
// After a lost connection it reads the whole object again and compares the checksum
// of the part that it has delivered already. A range request would be shorter, but
// its response lacks the checksum that the SDK verifies.
type download struct {
	store   *Store
	ctx     context.Context // the caller's
	object  string
	stream  *stream // nil after a lost connection
	length  int64
	as      store.Presentation
	left    int64       // bytes not yet delivered
	sum     hash.Hash32 // of what was delivered
	resumes int         // so far
	end     error       // sticky error of Read; nil while bytes are left
}

// download starts to read an object.
func (s *Store) download(ctx context.Context, object string) (*download, error) {
	st, length, err := s.get(ctx, object)
	if err != nil {
		return nil, err
	}
	return &download{store: s, ctx: ctx, object: object, stream: st, length: length, as: st.presentation, left: length, sum: crc32.NewIEEE()}, nil
}

func (d *download) Read(p []byte) (int, error) {
	if d.end != nil || len(p) == 0 {
		return 0, d.end
	}
	n, err := d.next(p)
	_, _ = d.sum.Write(p[:n]) // never fails
	d.left -= int64(n)
	if d.left == 0 && err == nil {
		err = d.expectEnd()
	}
	if n > 0 && d.canResume(err) {
		err = nil // the next Read resumes
	}
	d.end = d.explain(err)
	return n, d.end
}

// next reads from the stream, and resumes on another one if it fails early.
func (d *download) next(p []byte) (int, error) {
	if d.left == 0 {
		return 0, nil
	}
	p = p[:min(int64(len(p)), d.left)]
	for {
		var n int
		err := d.resume()
		if err == nil {
			n, err = d.stream.Read(p)
		}
		if n > 0 || err == nil || !d.canResume(err) {
			return n, err
		}
		mean := backoff.Exponential(firstPause, longestPause, d.resumes-1)
		if err := backoff.Wait(d.ctx, backoff.Jitter(mean, rand.Uint64())); err != nil {
			return 0, err
		}
	}
}

// canResume reports whether another response may help, and then closes the stream. An
// error behind the last byte, such as a wrong checksum, concerns the whole object.
func (d *download) canResume(err error) bool {
	if err == nil || d.left == 0 || d.resumes == maxResumes || d.ctx.Err() != nil || isDefinite(err) {
		return false
	}
	d.resumes++
	if d.stream != nil {
		_ = d.stream.Close() // its error is known
		d.stream = nil
	}
	return true
}

// isDefinite reports whether another response would fail alike: S3 answered with an
// error that is not a server error, or the object has changed.
func isDefinite(err error) bool {
	return errors.Is(err, errChanged) || errors.Is(err, errNoLength) || !isUnanswered(err)
}

var errChanged = errors.New("the object changed during the download")

// resume opens a stream, if there is none, and skips what was delivered.
func (d *download) resume() error {
	if d.stream != nil {
		return nil
	}
	st, length, err := d.store.get(d.ctx, d.object)
	if err != nil {
		return err
	}
	done, sum := d.length-d.left, crc32.NewIEEE()
	if length == d.length {
		_, err = io.CopyN(sum, st, done)
	}
	if err == nil && (length != d.length || st.presentation != d.as || sum.Sum32() != d.sum.Sum32()) {
		err = errChanged
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	d.stream = st
	return nil
}

// expectEnd reads past the last byte: the SDK verifies the checksum at EOF, and a
// caller that stops at the length must not miss a mismatch.
func (d *download) expectEnd() error {
	n, err := io.ReadFull(d.stream, make([]byte, 1))
	if n > 0 {
		return errors.New("the response has more bytes than stated")
	}
	return err
}

func (d *download) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && d.left == 0:
		return io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("s3body: reading s3://%s/%s, after %d of %d bytes: %w", d.store.bucket, d.object, d.length-d.left, d.length, contract(err))
}

// Presentation implements [store.Presented].
func (d *download) Presentation() store.Presentation { return d.as }

// Close closes the download.
func (d *download) Close() error {
	if d.stream == nil {
		return nil
	}
	return d.stream.Close()
}
