package isr

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/store"
)

// A visitor who waits for a page that is missing gets it while it is rendered:
//
//	renderer ──► recorder ──► stream ──► the body, publish                   (the flight)
//	                            ├──────► the visitor whose request started it
//	                            └──────► those who joined, from the beginning
//
// The body is kept once, and bounded by MaxBody. Each visitor is written to by the goroutine
// of his request, at his own pace, so that none slows the render. A render that breaks
// breaks the connections of its visitors, and nothing is stored.
//
// A visitor attaches once: when the header was judged storable, the first bytes of the body
// have come, and neither he nor the render needs the whole page first (see
// fill.streamable and handler.attach). The end of the response waits until the page is
// published, for Config.StoreTimeout at most, so that a visitor who has read a whole page
// finds it stored.
//
// If the flight can no longer store what is rendered, because its lease is lost or the body
// is larger than MaxBody, the render goes on for those who have attached, and ends when the
// last of them leaves. Beyond MaxBody nothing more is kept: the renderer then waits for the
// slowest of them.

// streamAfter is how long after the first bytes of a body visitors attach. A page that is
// rendered and published until then is served as a whole, with its length and entity tag.
const streamAfter = time.Millisecond

var errAbandoned = errors.New("no visitor reads the response any more")

// A stream is the body of a response while it is rendered.
type stream struct {
	cancel context.CancelCauseFunc // ends the render
	memory *renderMemory           // of the body
	pieces *bodies.Pieces          // buffers of readers
	// stored is closed once the flight has stored the page, or will not. It is set before the first
	// visitor attaches, or by the one who gets the response for himself.
	stored <-chan struct{}

	mu       sync.Mutex
	body     []byte // of an offset only written once
	rest     restOf // where the body is now, and body is empty; nil: it is not moved
	size     int64  // of the body, if it is moved
	base     int64  // the offset of body; above 0 once more than the limit was written
	ended    bool
	err      error                // with ended: why the response is incomplete
	orphaned bool                 // the flight will not store the response
	readers  map[*reader]struct{} // the visitors who have attached and not left
	changed  chan struct{}        // closed at the next change; nil if no goroutine waits for it
}

// restOf sends what follows an offset in a body that is stored.
type restOf func(ctx context.Context, w http.ResponseWriter, offset int64)

// settlesWith sets the channel that is closed once the page is stored, or will not be, unless it is set.
func (s *stream) settlesWith(stored <-chan struct{}) {
	if s.stored == nil {
		s.stored = stored
	}
}

// changeLocked returns a channel that is closed at the next change. Callers must hold mu.
func (s *stream) changeLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *stream) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// write adds b to the body. Once that has more than limit bytes, it keeps no more than b,
// and waits for all readers before. That must not happen before orphan has returned true.
func (s *stream) write(b []byte, limit int64) error {
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
func (s *stream) behindLocked() bool {
	for rd := range s.readers {
		if rd.at < s.base+int64(len(s.body)) {
			return true
		}
	}
	return false
}

// grow makes room for a body of n bytes in all.
func (s *stream) grow(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := int(n) - len(s.body); more > 0 {
		s.body = slices.Grow(s.body, more)
	}
}

// kept returns the body. It may not be changed.
func (s *stream) kept() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body
}

// move has readers get the rest of the body by rest from the store, where the whole of it is now, if it has size
// bytes: a visitor who is slow does not keep it in memory.
func (s *stream) move(size int64, rest restOf) {
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
func (s *stream) close(err error) {
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
func (s *stream) orphan() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.orphaned = true
	return len(s.readers) > 0
}

// attach returns a reader that starts at the beginning, nil if there can be none. The caller must call leave. The
// reader does not wait for the store any more once overdue is closed.
func (s *stream) attach(overdue <-chan struct{}) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orphaned || s.err != nil {
		return nil
	}
	rd := &reader{stream: s, overdue: overdue, freed: s.rest != nil}
	if !rd.freed {
		s.memory.share()
	}
	if s.readers == nil {
		s.readers = make(map[*reader]struct{})
	}
	s.readers[rd] = struct{}{}
	return rd
}

// A reader is a visitor who reads a stream.
//
// It does not refer to the flight, nor to a page with its body: a visitor who is slow would keep the
// body in memory (see move).
type reader struct {
	stream  *stream
	overdue <-chan struct{} // closed when the store has taken too long
	at      int64           // guarded by stream.mu: the offset up to which it has read
	freed   bool            // guarded by stream.mu: it has released the memory of the stream
}

// leave detaches the reader. A render that is not stored ends with its last reader.
func (rd *reader) leave() {
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
func (rd *reader) freeLocked() {
	if !rd.freed {
		rd.freed = true
		rd.stream.memory.release()
	}
}

// next copies what has arrived and was not read yet into a buffer: a visitor who is slow must not keep the
// whole body in memory. If that is nothing, the stream has ended, with an error if it broke; or rest sends
// what follows; or change is closed when there may be more.
func (rd *reader) next(buffer []byte) (n int, ended bool, rest restOf, change <-chan struct{}, err error) {
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
func (rd *reader) advance(n int) {
	s := rd.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	rd.at += int64(n)
	if s.base > 0 || s.orphaned {
		s.notifyLocked() // the renderer may wait for this
	}
}

// copy writes the response to a visitor until it ends or he leaves. If it breaks, so does
// his connection.
func (rd *reader) copy(ctx context.Context, w http.ResponseWriter) {
	if rest := rd.copyPieces(ctx, w); rest != nil {
		rest(ctx, w, rd.at)
	}
}

// copyPieces is copy until the rest is to be read from the store: then it returns how, else nil.
func (rd *reader) copyPieces(ctx context.Context, w http.ResponseWriter) restOf {
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
			rd.awaitStored(ctx)
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil
		}
	}
}

// settleStreams tells the visitors of a render that its page is stored, or will not be.
func (s *fill) settleStreams() {
	s.f.settleStream()
	if s.own != nil {
		s.own.settle()
	}
}

// awaitStored waits until the page is published, or will not be, or the store has taken too
// long.
func (rd *reader) awaitStored(ctx context.Context) {
	select {
	case <-rd.stream.stored:
	case <-rd.overdue:
	case <-ctx.Done():
	}
}

// An endWriter holds the last byte of a response with Content-Length back until await
// returns. Other responses end when the handler returns.
type endWriter struct {
	http.ResponseWriter
	await func()
	left  int64 // up to the end; not positive if there is nothing to hold back
}

func (w *endWriter) WriteHeader(status int) {
	w.left = httpcache.DeclaredLength(w.Header())
	w.ResponseWriter.WriteHeader(status)
}

func (w *endWriter) Write(b []byte) (int, error) {
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
	w.await()
	_, err = w.ResponseWriter.Write(b[last:])
	return len(b), err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *endWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// streamable reports whether visitors may get a response while it is rendered: nothing
// needs its body first, and there is no older page for them should the render fail. rec is
// what it replaces.
func (s *fill) streamable(rec store.Record, status int, h http.Header) bool {
	switch {
	case s.force, s.f.stream.Load() != nil:
		return false
	case status != http.StatusOK && status != http.StatusNonAuthoritativeInfo:
		return false // small, and kept or withdrawn by rules of their own
	case len(h["Content-Encoding"]) > 0, len(h["Content-Type"]) == 0:
		return false // it is decoded, or its type detected, as a whole
	case len(s.route.Reject.Without)+len(s.route.Reject.With) > 0:
		return false
	}
	return !s.servableOnError(rec)
}

// An offer is a response that visitors may attach to while it is rendered.
type offer struct {
	*stream
	page   *page            // without body; its header and its purges
	length int64            // Content-Length, -1 if there is none
	status httpcache.Status // Stored, or the Detail for which it is not
	settle func()           // tells its visitors that the page is stored, or will not be
}

// offerStream shows a response, of which the first bytes have arrived, to the visitors who
// wait for it. unstored is the reason for which it is not stored; empty if it is.
func (s *fill) offerStream(st *stream, e store.Entry, at timing, unstored string, length int64) {
	size := length
	if size < 0 {
		size = coding.MinBody
	}
	s.route.present.varyByCoding(e.Header, size) // as when it is stored
	stored := make(chan struct{})
	st.settlesWith(stored)
	s.f.stream.Store(&offer{
		stream: st,
		page:   newPage(s.key, e, store.PurgeState{}, reading{began: at.began, ended: at.began}, nil, s.route.present),
		length: length,
		status: httpcache.Status{Stored: unstored == "", Detail: unstored},
		settle: sync.OnceFunc(func() { close(stored) }),
	})
	time.AfterFunc(streamAfter, func() { close(s.f.streaming) })
}

// attach attaches a visitor to the stream of a flight, if he takes its page and his request
// does not need the whole page first. The caller must serve the reply.
func (h *handler) attach(r *http.Request, f *flight, leader bool, known int64, old *page) (got reply, ok bool) {
	st := f.stream.Load()
	began := st.page.read.began
	if !h.streams(r, st) || f.overtaken(began) || h.c.floor.above(began) {
		return reply{}, false
	}
	if h.orStaleIfError(failure{}, old).outcome.(failure).fallback != nil {
		return reply{}, false // this page is served if the render fails
	}
	if got.state, _ = h.judge(f, st.page, h.c.now()); !h.takesPage(st.page, got.state, leader, known) {
		return reply{}, false
	}
	got.stream, got.offer, got.flight = st.attach(f.overdue), st, f
	return got, got.stream != nil
}

// streams reports whether a request can be answered by a stream. A page that the request does
// not match (see [cachekey.Mapper.Matches]) is never shown. HEAD, ranges and, if the
// origin states no entity tag, conditions need the whole page; so does HTTP/1.0 without a
// length, which has no way to tell a broken response from a complete one.
func (h *handler) streams(r *http.Request, st *offer) bool {
	if !h.route.keys.Matches(st.page.varies, r.Header) || r.Method != http.MethodGet || len(r.Header["Range"]) > 0 || st.length < 0 && !r.ProtoAtLeast(1, 1) {
		return false
	}
	return st.page.entry.ETag != "" || len(r.Header["If-None-Match"]) == 0
}

// serveStream answers with a page while it is rendered, and detaches the visitor. If the render has
// ended already, it serves the page p; an error is then as of [page.serveHit].
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, got reply, status httpcache.Status) (p *page, err error) {
	rd, st, f, began := got.stream, got.offer, got.flight, time.Now()
	got.flight = nil // it has the body, and is not needed once that is copied
	defer rd.leave()
	defer f.waitTimes.report(w, began, got) // once the render has ended
	status.Stored, status.Detail = st.status.Stored, st.status.Detail
	ending := &endWriter{ResponseWriter: w, await: func() { rd.awaitStored(r.Context()) }}
	if rendered := f.rendered.Load(); rendered != nil {
		p := (*rendered)()
		state, _ := h.judge(f, p, h.c.now())
		if state != store.Purged && h.route.keys.Matches(p.varies, r.Header) && p.hold(&h.c.responses) {
			defer p.release(&h.c.responses)
			return p, p.serveNew(ending, httpconn.WithoutCoalescing(r), h.route.present, h.c.now(), state, status)
		}
	}
	if st.page.begin(ending, r, h.route.present, h.c.now(), got.state, status, st.length) {
		rd.copy(r.Context(), ending)
	}
	return nil, nil
}

// begin sends the header of a page whose body is not known yet, and reports whether the body
// follows. length is that of the body, -1 if it is unknown.
func (p *page) begin(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, status httpcache.Status, length int64) bool {
	status.ForwardStatus = p.status()
	as.hint(w, r, p)
	if as.report != nil {
		as.report(w, p, status, p.entry.Age(now))
	}
	h := w.Header()
	h["Age"] = []string{p.age(now)}
	h["Cache-Status"] = []string{status.After(p.upstream)}
	p.header(h, as, p.lifetimes(as, now, state, false))
	if p.plain.header != nil {
		h["Etag"] = p.plain.header
	}
	if httpcache.NotModified(r.Header, p.plain.etag, p.modified) {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	if length >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	w.WriteHeader(p.status())
	return true
}
