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
)

// maxResumes is how often a download goes on after its connection was cut or
// has stalled.
const maxResumes = 2

// A download delivers exactly the stated length of an object, or an error.
//
// An answer that is cut off is replaced by another one of the whole object, of
// which what was delivered already is read again and compared: a ranged answer
// would be shorter, and would come without the checksum that the SDK verifies.
type download struct {
	store   *Store
	ctx     context.Context // the caller's
	object  string
	stream  *stream // nil after one that was cut off
	length  int64
	left    int64       // not yet delivered
	sum     hash.Hash32 // of what was delivered
	resumes int         // so far
	end     error       // what every Read returns from now on, nil while there is more
}

// download begins to read an object.
func (s *Store) download(ctx context.Context, object string) (*download, error) {
	st, length, err := s.get(ctx, object)
	if err != nil {
		return nil, err
	}
	return &download{store: s, ctx: ctx, object: object, stream: st, length: length, left: length, sum: crc32.NewIEEE()}, nil
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
		err = nil // the next Read goes on
	}
	d.end = d.explain(err)
	return n, d.end
}

// next reads what comes next, from another answer if this one ends early.
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

// canResume reports whether an error only ends the answer at hand, and then
// closes that. An error behind the last byte is about all of them, such as a
// checksum that is wrong.
func (d *download) canResume(err error) bool {
	if err == nil || d.left == 0 || d.resumes == maxResumes || d.ctx.Err() != nil || isDefinite(err) {
		return false
	}
	d.resumes++
	if d.stream != nil {
		_ = d.stream.Close() // cut off
		d.stream = nil
	}
	return true
}

// isDefinite reports whether another answer would be the same: S3 gave one that
// does not blame the server, or the object is another one.
func isDefinite(err error) bool {
	return errors.Is(err, errChanged) || errors.Is(err, errNoLength) || !isUnanswered(err)
}

var errChanged = errors.New("the object is another one than at the beginning")

// resume makes sure of a stream that stands behind what was delivered.
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
	if err == nil && (length != d.length || sum.Sum32() != d.sum.Sum32()) {
		err = errChanged
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	d.stream = st
	return nil
}

// expectEnd reads on behind the last byte. It is at the end that the SDK
// compares the checksum, so a caller that stops at the length must not miss it.
func (d *download) expectEnd() error {
	n, err := io.ReadFull(d.stream, make([]byte, 1))
	if n > 0 {
		return errors.New("more follows")
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

// Close ends the download.
func (d *download) Close() error {
	if d.stream == nil {
		return nil
	}
	return d.stream.Close()
}
