package isr

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A page whose body is long is answered without its body in memory, if it need not be there:
//
//	HEAD, 304         the entry says all, and the head of its codings
//	ranges            these parts are read from the store
//	the whole body    is read from the store in pieces, and verified while it is sent: its last bytes
//	                  are held back until its digest is right, so that no visitor takes a damaged
//	                  body for a whole one
//
// Such a page is detached. It is made for a request, or for a search and those who wait for it, and
// memory keeps its outline alone. Whole bodies are sent so if they are on a local disk, longer than
// maxLoaded and without codings, until they have been requested maxLoads times; and from any store if
// there is no room for them in memory (see pin).
//
// What is verified of a range is its length: no digest is known of a part of a body. A body that turns
// out to be missing or damaged is suspect: it is read and verified as a whole next, and rendered again.

const (
	// maxLoaded is the longest body that is loaded from a local disk into memory when it is
	// requested first, in bytes. It is the longest that peers are asked for.
	maxLoaded = store.MaxPeerBody
	// pieceLength is the length of the pieces in which a body is sent from the store, in bytes. Each
	// slow visitor holds one. Beyond maxLongPieces they are shorter: one client may have a hundred thousand
	// streams of HTTP/2.
	pieceLength      = 64 << 10
	shortPieceLength = 8 << 10
	maxLongPieces    = 128
	// maxShare is the largest part of the memory tier, as a divisor, that a body may take that is put there
	// because it is requested often.
	maxShare = 8
	// maxOpenBodies bounds the bodies that stay open while visitors take them, each by a descriptor or a
	// connection. A further one is opened for each piece, and its response breaks if it is deleted.
	maxOpenBodies = 256
	// maxSuspects bounds the bodies that are known to be suspect.
	maxSuspects = 1024
)

// errNoRoom: the body of the page is not in the store, and there is no room in memory to send it.
var errNoRoom = errors.New("there is no memory left for responses")

// newDetached makes a page without its body, as newPage does. as may be of another page of the entry.
func newDetached(k store.Key, e store.Entry, cover store.PurgeState, read reading, as *presentation) *page {
	p := &page{key: k, entry: e, cover: cover, read: read, dropped: new(atomic.Bool), stored: true, detached: true}
	p.nextCoding.notBefore.Store(math.MaxInt64) // there is nothing to encode
	p.prepare(e.Header.Clone(), nil, e.Length, as)
	return p
}

// detachable reports whether the page of an entry may be served without its body in memory.
func (c *Cache) detachable(e *store.Entry) bool {
	return !e.Foreign && e.Length > maxAtHand && e.Length <= c.cfg.MaxBody && len(e.SHA256) == 2*sha256.Size &&
		e.Header.Get("Content-Type") != "" && !c.suspects.has(e.BodyKey)
}

// sentFromDisk reports whether whole bodies of a detached page are sent from the local disk.
func (c *Cache) sentFromDisk(p *page) bool {
	return c.local != nil && p.plain.size > maxLoaded && !p.codable
}

// lightRequest returns a request whose response may need no body, or only a part of one: what says so of
// it. Nil: it needs the body.
func lightRequest(r *http.Request) *http.Request {
	light := &http.Request{Method: r.Method, Header: make(http.Header)}
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range"} {
		if lines := r.Header[name]; len(lines) > 0 {
			light.Header[name] = lines
		}
	}
	if r.Method != http.MethodHead && len(light.Header) == 0 {
		return nil
	}
	if lines := r.Header["Accept-Encoding"]; len(lines) > 0 {
		light.Header["Accept-Encoding"] = lines
	}
	light.Header = maps.Clone(light.Header)
	return light
}

// isLight reports whether the response to a request needs less than the body of the page.
func (p *page) isLight(r *http.Request, as *presentation) bool {
	if r == nil {
		return false
	}
	_, status, ranged := p.choose(r, as)
	return r.Method == http.MethodHead || status == http.StatusNotModified || ranged
}

// detached returns the page of the outline of a decision without its body, if the request is answered
// so; else nil.
func (h *handler) detached(r *http.Request, d *decision) *page {
	o, e := d.outline, &d.page.entry
	light := lightRequest(r)
	if !h.c.detachable(e) || light == nil && (h.c.local == nil || e.Length <= maxLoaded) {
		return nil
	}
	p := newDetached(d.page.key, *e, *o.cover, o.read, h.route.present)
	p.dropped = o.dropped
	if p.codable {
		p.setCodings(o.none, o.absent)
	}
	if light != nil {
		h.c.coder.describe(r.Context(), p, h.route.present, httpcache.AcceptEncoding(r.Header["Accept-Encoding"]))
	}
	if p.isLight(light, h.route.present) || h.c.sentFromDisk(p) && (p.plain.size > h.c.memory.limit/maxShare || o.loads.Add(1) < maxLoads) {
		return p
	}
	return nil
}

// detached returns the page of an entry without its body, if that suffices for the request that started
// the search, or is how such bodies are sent; else nil. A body that is sent whole is verified, so that a
// damaged one is found before its page is served; the error is then as of search.body.
func (s *search) detached(ctx context.Context, rec store.Record, read reading) (*page, error) {
	e := *rec.Entry
	if !s.c.detachable(&e) {
		return nil, nil
	}
	p := newDetached(s.key, e, rec.Purges, read, s.route.present)
	if s.light != nil {
		s.c.coder.describe(ctx, p, s.route.present, s.accept)
	}
	switch {
	case p.isLight(s.light, s.route.present):
		return p, nil
	case !s.c.sentFromDisk(p):
		return nil, nil
	}
	if err := s.c.fills.begin(ctx); err != nil {
		return nil, fmt.Errorf("reading the body of %s: %w", s.key, err)
	}
	defer s.c.fills.end()
	_, err := s.c.readBody(ctx, &e, func() ([]byte, error) { return nil, s.c.checkStored(ctx, &e) })
	if errors.Is(err, errUnreadable) && !s.pinned(rec) {
		err = fmt.Errorf("%w: %w", ErrNoBody, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// checkStored reads and verifies a body in pieces.
func (c *Cache) checkStored(ctx context.Context, e *store.Entry) error {
	b := c.storedBody(ctx, e, "")
	defer b.close()
	_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{b}, make([]byte, pieceLength))
	return err
}

// sendRest sends what follows an offset in the body of a page that was just stored.
func (c *Cache) sendRest(ctx context.Context, w http.ResponseWriter, p *page, offset int64) {
	b := c.storedBody(ctx, &p.entry, "")
	b.at, b.buffer = offset, c.pieces.get()
	src := source{stored: b, page: p, cache: c}
	defer src.close()
	_ = b.send(w) // the visitor went away
	src.mustHaveSent()
}

// bodyLost answers a request whose page has a body that cannot be sent. Nothing was sent before.
func (h *handler) bodyLost(w http.ResponseWriter, r *http.Request, p *page, err error) {
	header := w.Header()
	delete(header, "Age")
	delete(header, "Cache-Status")
	switch {
	case r.Context().Err() != nil:
	case errors.Is(err, errNoRoom):
		h.serveFailure(w, r, plainResponse(http.StatusServiceUnavailable), httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailNoMemory}, h.c.now().Add(time.Second))
	case errors.Is(err, guard.ErrSlow):
		h.c.localSlow(&p.entry)
		h.withoutStore(w, r, p.key, nil, httpcache.Status{Forward: httpcache.ForwardMiss})
	default:
		h.c.suspect(p, err)
		h.find(w, r, p.key, nil)
	}
}

// suspect has the body of a page read and verified as a whole when the page is requested next.
func (c *Cache) suspect(p *page, err error) {
	c.suspects.add(p.entry.BodyKey)
	c.memory.drop(p.key)
	c.complaints.Log("the body of a page cannot be sent from the store; it is verified", "key", p.key.String(), "body", p.entry.BodyKey, "error", err)
}

// A bodySet is a bounded set of keys of bodies. It is safe for concurrent use.
type bodySet struct {
	mu   sync.Mutex
	keys map[string]struct{} // guarded by mu
}

func (s *bodySet) add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys) == maxSuspects {
		s.keys = make(map[string]struct{})
	}
	s.keys[key] = struct{}{}
}

func (s *bodySet) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

func (s *bodySet) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.keys[key]
	return found
}

// A source is what the body of a response is taken from: a representation in memory, or the stored body.
type source struct {
	rep    *representation
	pinned *responseMemory // of rep.pin; nil: it is not pinned
	stored *storedBody     // nil: the body is that of rep
	page   *page
	cache  *Cache
}

// source returns the source of the body of a response with a representation. The caller must close it.
// errNoRoom, guard.ErrSlow, or what reading the body returns: nothing was sent.
func (p *page) source(r *http.Request, as *presentation, rep *representation, ranged bool) (source, error) {
	if !p.detached && rep.pin == nil {
		return source{rep: rep}, nil
	}
	c := as.cache()
	switch {
	case !p.detached && c == nil:
		return source{rep: rep}, nil
	case !p.detached && rep.pin.take(&c.responses):
		return source{rep: rep, pinned: &c.responses}, nil
	case !p.stored || !c.detachable(&p.entry):
		return source{}, errNoRoom
	}
	field := ""
	if ranged {
		field = r.Header["Range"][0]
	}
	src := source{rep: &p.plain, stored: c.storedBody(r.Context(), &p.entry, field), page: p, cache: c}
	if err := src.stored.begin(c.cfg.StoreTimeout); err != nil {
		return source{}, err
	}
	return src, nil
}

// content returns the body.
func (s *source) content() io.ReadSeeker {
	if s.stored != nil {
		return s.stored
	}
	return bytes.NewReader(s.rep.body)
}

// writer returns the writer for the parts of the body.
func (s *source) writer(w http.ResponseWriter) http.ResponseWriter {
	if s.stored != nil {
		return pieceWriter{w, &s.cache.pieces}
	}
	return w
}

// mustHaveSent breaks the connection if the body could not be read to its end, as the visitor must not
// take what was sent for all of it.
func (s *source) mustHaveSent() {
	if s.stored == nil || s.stored.err == nil {
		return
	}
	if s.stored.ctx.Err() == nil {
		s.cache.suspect(s.page, s.stored.err)
	}
	panic(http.ErrAbortHandler)
}

func (s *source) close() {
	if s.pinned != nil {
		s.rep.pin.give(s.pinned)
	}
	if s.stored != nil {
		s.stored.close()
	}
}

// cache returns the cache of the route; nil in tests of pages alone.
func (as *presentation) cache() *Cache {
	if as.coder == nil {
		return nil
	}
	return as.coder.c
}

// A storedBody reads a stored body, or parts of it. Read from its first byte, it is verified: the last
// bytes are returned only if the digest is right. It is for one goroutine.
type storedBody struct {
	ctx   context.Context //nolint:containedctx // of the request
	c     *Cache
	e     *store.Entry
	field string // Range; empty: the whole body is wanted

	at     int64
	sum    hash.Hash
	summed int64 // sum is that of the first bytes
	err    error // of the last Read, unless it is io.EOF

	rd        io.ReadCloser // nil: no part is open
	stays     bool          // rd stays open between reads, and is counted
	next, end int64         // what rd returns next, and where it ends

	buffer *[]byte // of pieces; nil before begin
	ahead  []byte  // read by begin, from first on
	first  int64
}

// storedBody returns a reader of the body of an entry, for a response with a Range field, which may be empty.
func (c *Cache) storedBody(ctx context.Context, e *store.Entry, field string) *storedBody {
	return &storedBody{ctx: ctx, c: c, e: e, field: field, sum: sha256.New()}
}

// pieceBuffers are the buffers of pieces, of which a bounded number is long. Their methods are safe for
// concurrent use.
type pieceBuffers struct{ long atomic.Int64 }

var (
	longPieces  = sync.Pool{New: func() any { return new(make([]byte, pieceLength)) }}
	shortPieces = sync.Pool{New: func() any { return new(make([]byte, shortPieceLength)) }}
)

// get returns a buffer. The caller must put it back.
func (p *pieceBuffers) get() *[]byte {
	if p.long.Add(1) <= maxLongPieces {
		return longPieces.Get().(*[]byte)
	}
	p.long.Add(-1)
	return shortPieces.Get().(*[]byte)
}

func (p *pieceBuffers) put(b *[]byte) {
	if len(*b) == shortPieceLength {
		shortPieces.Put(b)
		return
	}
	longPieces.Put(b)
	p.long.Add(-1)
}

// A pieceWriter writes parts of a body by a buffer of pieces: net/http would allocate another one for each
// response.
type pieceWriter struct {
	http.ResponseWriter
	pieces *pieceBuffers
}

// ReadFrom implements [io.ReaderFrom].
func (w pieceWriter) ReadFrom(r io.Reader) (int64, error) {
	buffer := w.pieces.get()
	defer w.pieces.put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{w.ResponseWriter}, struct{ io.Reader }{r}, *buffer)
}

func (w pieceWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin reads the first bytes that are wanted, so that a body that cannot be read is found before a
// response begins. guard.ErrSlow: that took longer than the limit.
func (b *storedBody) begin(limit time.Duration) error {
	if b.field != "" {
		b.at = httpcache.FirstOfRange(b.field, b.e.Length)
	}
	b.first = b.at
	buffer := b.c.pieces.get()
	done, left := make(chan error, 1), new(atomic.Bool)
	go func() {
		n, err := b.fetch(*buffer)
		if b.buffer, b.ahead = buffer, (*buffer)[:n]; left.Swap(true) { // the caller has given up
			b.close()
			return
		}
		done <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
		if !left.Swap(true) {
			return fmt.Errorf("reading the body %s: %w", b.e.BodyKey, guard.ErrSlow)
		}
		err = <-done
	case err = <-done:
	}
	if err != nil {
		b.close()
	}
	return err
}

// Read implements [io.Reader].
func (b *storedBody) Read(p []byte) (n int, err error) {
	switch from := b.at - b.first; {
	case b.err != nil:
		return 0, b.err
	case b.at >= b.e.Length:
		return 0, io.EOF
	case from >= 0 && from < int64(len(b.ahead)):
		n = copy(p, b.ahead[from:])
	default:
		n, b.err = b.fetch(p)
	}
	if n > 0 && b.summed == b.at {
		_, _ = b.sum.Write(p[:n]) // it never fails
		if b.summed += int64(n); b.summed == b.e.Length && hex.EncodeToString(b.sum.Sum(nil)) != b.e.SHA256 {
			b.err = fmt.Errorf("%w: %s does not have the published content", ErrNoBody, b.e.BodyKey)
			return 0, b.err
		}
	}
	b.at += int64(n)
	return n, b.err
}

// fetch reads from the part that is open, and opens the next one if there is none.
func (b *storedBody) fetch(p []byte) (n int, err error) {
	if b.c.local != nil { // a disk that hangs must not take all threads (see maxLocalReads)
		select {
		case b.c.localReads <- struct{}{}:
			defer func() { <-b.c.localReads }()
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	if b.rd == nil || b.next != b.at {
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	for n == 0 && err == nil {
		n, err = b.rd.Read(p[:min(int64(len(p)), b.end-b.next)])
	}
	switch b.next += int64(n); {
	case b.next == b.end && (err == nil || errors.Is(err, io.EOF)), err == nil && !b.stays:
		err = b.closePart()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = fmt.Errorf("reading the body %s: %w", b.e.BodyKey, err)
	}
	return n, err
}

// open opens the part that begins at at.
func (b *storedBody) open() error {
	_ = b.closePart() // it is read only
	b.next, b.end = b.at, b.e.Length
	if b.field != "" {
		b.end = httpcache.EndOfRange(b.field, b.at, b.e.Length)
	}
	rd, size, err := store.OpenRange(b.ctx, b.c.bodies, b.e.BodyKey, b.at, b.end-b.at)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidInput):
		return fmt.Errorf("%w: %w", ErrNoBody, err)
	case err != nil:
		return fmt.Errorf("opening the body %s: %w", b.e.BodyKey, err)
	case size != b.e.Length:
		return errors.Join(fmt.Errorf("%w: %s has %d bytes, %d were published", ErrNoBody, b.e.BodyKey, size, b.e.Length), rd.Close())
	}
	b.rd = rd
	if b.stays = b.c.openBodies.Add(1) <= b.c.mostBodies; !b.stays {
		b.c.openBodies.Add(-1)
	}
	return nil
}

// Seek implements [io.Seeker].
func (b *storedBody) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.e.Length
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking in the body %s: %w", b.e.BodyKey, store.ErrInvalidInput)
	}
	b.at = offset // the next fetch opens another part if it must
	return offset, nil
}

// send writes the whole body. The error is that of the visitor's connection.
func (b *storedBody) send(w io.Writer) error {
	for {
		n, err := b.Read(*b.buffer)
		if n > 0 {
			if _, err := w.Write((*b.buffer)[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // mustHaveSent looks at it
		}
	}
}

func (b *storedBody) close() {
	_ = b.closePart() // it is read only
	if b.buffer != nil {
		b.c.pieces.put(b.buffer)
		b.buffer, b.ahead = nil, nil
	}
}

func (b *storedBody) closePart() error {
	if b.rd == nil {
		return nil
	}
	if b.stays {
		b.c.openBodies.Add(-1)
	}
	err := b.rd.Close()
	b.rd = nil
	return err
}
