package render

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
)

var errAbandoned = errors.New("no visitor reads the response any more")

// A Stream is the body of a response while it is rendered.
type Stream struct {
	cancel context.CancelCauseFunc // ends the render
	memory *Memory                 // of the body
	pieces *bodies.Pieces          // buffers of readers
	// stored is closed once the flight has stored the page, or will not. It is set before the first
	// visitor attaches, or by the one who gets the response for himself.
	stored <-chan struct{}

	mu       sync.Mutex
	body     []byte // of an offset only written once
	rest     RestOf // where the body is now, and body is empty; nil: it is not moved
	size     int64  // of the body, if it is moved
	base     int64  // the offset of body; above 0 once more than the limit was written
	ended    bool
	err      error                // with ended: why the response is incomplete
	orphaned bool                 // the flight will not store the response
	readers  map[*Reader]struct{} // the visitors who have attached and not left
	changed  chan struct{}        // closed at the next change; nil if no goroutine waits for it
}

// RestOf sends what follows an offset in a body that is stored.
type RestOf func(ctx context.Context, w http.ResponseWriter, offset int64)

// SettlesWith sets the channel that is closed once the page is stored, or will not be, unless it is set.
func (s *Stream) SettlesWith(stored <-chan struct{}) {
	if s.stored == nil {
		s.stored = stored
	}
}

// changeLocked returns a channel that is closed at the next change. Callers must hold mu.
func (s *Stream) changeLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *Stream) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// write adds b to the body. Once that has more than limit bytes, it keeps no more than b,
// and waits for all readers before. That must not happen before orphan has returned true.
func (s *Stream) write(b []byte, limit int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return s.err
		case s.base == 0 && int64(len(s.body)+len(b)) <= limit:
			s.body = append(s.body, b...)
			s.notifyLocked()
			return nil
		case !s.behindLocked():
			s.base += int64(len(s.body))
			s.body = append([]byte(nil), b...)
			s.notifyLocked()
			return nil
		}
		change := s.changeLocked()
		s.mu.Unlock()
		<-change
		s.mu.Lock()
	}
}

// behindLocked reports whether a reader has not written all that there is.
func (s *Stream) behindLocked() bool {
	for rd := range s.readers {
		if rd.at < s.base+int64(len(s.body)) {
			return true
		}
	}
	return false
}

// grow makes room for a body of n bytes in all.
func (s *Stream) grow(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := int(n) - len(s.body); more > 0 {
		s.body = slices.Grow(s.body, more)
	}
}

// kept returns the body. It may not be changed.
func (s *Stream) kept() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body
}

// Move has readers get the rest of the body by rest from the store, where the whole of it is now, if it has size
// bytes: a visitor who is slow does not keep it in memory.
func (s *Stream) Move(size int64, rest RestOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.err == nil && s.base == 0 && int64(len(s.body)) == size {
		s.rest, s.size, s.body = rest, size, nil
		for rd := range s.readers { // even one that is writing: it has a copy of what it writes
			rd.freeLocked()
		}
		s.notifyLocked()
	}
}

// close ends the stream; err is why the response is incomplete, or nil. Only the first call
// counts.
func (s *Stream) close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	s.notifyLocked()
}

// orphan tells that the flight will not store the response, and reports whether the render
// goes on nevertheless, for readers.
func (s *Stream) orphan() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.orphaned = true
	return len(s.readers) > 0
}

// Attach returns a reader that starts at the beginning, nil if there can be none. The caller must call leave. The
// reader does not wait for the store any more once overdue is closed.
func (s *Stream) Attach(overdue <-chan struct{}) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orphaned || s.err != nil {
		return nil
	}
	rd := &Reader{stream: s, overdue: overdue, freed: s.rest != nil}
	if !rd.freed {
		s.memory.share()
	}
	if s.readers == nil {
		s.readers = make(map[*Reader]struct{})
	}
	s.readers[rd] = struct{}{}
	return rd
}

// A Reader is a visitor who reads a Stream.
//
// It does not refer to the flight, nor to a page with its body: a visitor who is slow would keep the
// body in memory (see Move).
type Reader struct {
	stream  *Stream
	overdue <-chan struct{} // closed when the store has taken too long
	at      int64           // guarded by stream.mu: the offset up to which it has read
	freed   bool            // guarded by stream.mu: it has released the memory of the stream
}

// Leave detaches the reader. A render that is not stored ends with its last reader.
func (rd *Reader) Leave() {
	s := rd.stream
	s.mu.Lock()
	delete(s.readers, rd)
	s.notifyLocked()
	abandoned := s.orphaned && len(s.readers) == 0
	rd.freeLocked()
	s.mu.Unlock()
	if abandoned {
		s.cancel(errAbandoned)
	}
}

// freeLocked releases the memory of the stream, which the reader does not need any more. Callers must
// hold stream.mu.
func (rd *Reader) freeLocked() {
	if !rd.freed {
		rd.freed = true
		rd.stream.memory.Release()
	}
}

// next copies what has arrived and was not read yet into a buffer: a visitor who is slow must not keep the
// whole body in memory. If that is nothing, the stream has ended, with an error if it broke; or rest sends
// what follows; or change is closed when there may be more.
func (rd *Reader) next(buffer []byte) (n int, ended bool, rest RestOf, change <-chan struct{}, err error) {
	s := rd.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.rest != nil && rd.at < s.size:
		return 0, false, s.rest, nil, nil
	case s.rest != nil:
		return 0, true, nil, nil, nil
	}
	if n = copy(buffer, s.body[rd.at-s.base:]); n > 0 {
		return n, false, nil, nil, nil
	}
	if s.ended {
		return 0, true, nil, nil, s.err
	}
	return 0, false, nil, s.changeLocked(), nil
}

// advance records that n bytes were written to the visitor.
func (rd *Reader) advance(n int) {
	s := rd.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	rd.at += int64(n)
	if s.base > 0 || s.orphaned {
		s.notifyLocked() // the renderer may wait for this
	}
}

// CopyTo writes the response to a visitor until it ends or he leaves. If it breaks, so does
// his connection.
func (rd *Reader) CopyTo(ctx context.Context, w http.ResponseWriter) {
	if rest := rd.copyPieces(ctx, w); rest != nil {
		rest(ctx, w, rd.at)
	}
}

// copyPieces is CopyTo until the rest is to be read from the store: then it returns how, else nil.
func (rd *Reader) copyPieces(ctx context.Context, w http.ResponseWriter) RestOf {
	control := http.NewResponseController(w)
	buffer := rd.stream.pieces.Get()
	defer rd.stream.pieces.Put(buffer)
	for {
		n, ended, rest, change, err := rd.next(*buffer)
		switch {
		case n > 0:
			if _, err := w.Write((*buffer)[:n]); err != nil {
				return nil // he went away
			}
			rd.advance(n)
			continue
		case rest != nil:
			return rest
		case err != nil:
			// HTTP/1.1 sends no final chunk, HTTP/2 resets the stream.
			panic(http.ErrAbortHandler)
		}
		// A writer that cannot flush does not buffer.
		_ = control.Flush()
		if ended {
			rd.AwaitStored(ctx)
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil
		}
	}
}

// AwaitStored waits until the page is published, or will not be, or the store has taken too
// long.
func (rd *Reader) AwaitStored(ctx context.Context) {
	select {
	case <-rd.stream.stored:
	case <-rd.overdue:
	case <-ctx.Done():
	}
}

// An EndWriter holds the last byte of a response with Content-Length back until Await
// returns. Other responses end when the handler returns.
type EndWriter struct {
	http.ResponseWriter
	Await func()
	left  int64 // up to the end; not positive if there is nothing to hold back
}

func (w *EndWriter) WriteHeader(status int) {
	w.left = httpcache.DeclaredLength(w.Header())
	w.ResponseWriter.WriteHeader(status)
}

func (w *EndWriter) Write(b []byte) (int, error) {
	if w.left <= 0 || int64(len(b)) < w.left {
		w.left -= int64(len(b))
		return w.ResponseWriter.Write(b)
	}
	w.left = 0
	last := len(b) - 1
	n, err := w.ResponseWriter.Write(b[:last])
	if err != nil {
		return n, err
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	w.Await()
	_, err = w.ResponseWriter.Write(b[last:])
	return len(b), err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *EndWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
