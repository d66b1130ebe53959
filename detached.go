package isr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/bodies"
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
// Such a page is detached. It is made for a request, or for a fill and those who wait for it, and
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
	// maxShare is the largest part of the memory tier, as a divisor, that a body may take that is put there
	// because it is requested often.
	maxShare = 8
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

// sentFromDisk reports whether whole bodies of a detached page are sent from the local disk.
func (c *Cache) sentFromDisk(p *page) bool {
	return c.reader.HasLocal() && p.size() > maxLoaded && !p.codable
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
	if !h.c.reader.Sendable(e) || light == nil && (!h.c.reader.HasLocal() || e.Length <= maxLoaded) {
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
	if p.isLight(light, h.route.present) || h.c.sentFromDisk(p) && (p.size() > h.c.memory.limit/maxShare || o.loads.Add(1) < maxLoads) {
		return p
	}
	return nil
}

// detached returns the page of an entry without its body, if that suffices for the request that started
// the fill, or is how such bodies are sent; else nil. A body that is sent whole is verified, so that a
// damaged one is found before its page is served; the error is then as of fill.body.
func (s *fill) detached(ctx context.Context, rec store.Record, read reading) (*page, error) {
	e := *rec.Entry
	if !s.c.reader.Sendable(&e) {
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
	err := s.c.reader.Check(ctx, &e)
	if errors.Is(err, bodies.ErrUnreadable) && !s.pinned(rec) {
		err = fmt.Errorf("%w: %w", ErrNoBody, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sendRest sends what follows an offset in the body of a page that was just stored.
func (c *Cache) sendRest(ctx context.Context, w http.ResponseWriter, p *page, offset int64) {
	body := c.reader.Open(ctx, &p.entry, "")
	defer body.Close()
	if _, err := body.Seek(offset, io.SeekStart); err == nil { // it fails for no offset of a body
		body.Send(w)
	}
	mustHaveSent(body, func(err error) { c.suspect(p, err) })
}

// suspect has the body of a page read and verified as a whole when the page is requested next.
func (c *Cache) suspect(p *page, err error) {
	c.reader.Suspect(p.entry.BodyKey)
	c.memory.drop(p.key)
	c.complaints.Log("the body of a page cannot be sent from the store; it is verified", "key", p.key.String(), "body", p.entry.BodyKey, "error", err)
}

// A bodyStore is where the bodies of detached pages are, and bodies that there is no memory for.
type bodyStore struct {
	reader *bodies.Reader
	// patience is how long the first bytes of a body may take.
	patience time.Duration
	// suspect is called with a page whose body could not be read to its end.
	suspect func(p *page, err error)
}

// A source is what the body of a response is taken from: a representation in memory, or the stored body.
type source struct {
	rep    *representation
	pinned *responseMemory // of rep.pin; nil: it is not pinned
	stored *bodies.Body    // nil: the body is that of rep
	page   *page
	from   *bodyStore
}

// source returns the source of the body of a response with a representation. The caller must close it.
// errNoRoom, guard.ErrSlow, or what reading the body returns: nothing was sent.
func (p *page) source(r *http.Request, as *presentation, rep *representation, ranged bool) (source, error) {
	if !p.detached && rep.pin == nil {
		return source{rep: rep}, nil
	}
	switch from := as.bodies; {
	case !p.detached && as.responses == nil:
		return source{rep: rep}, nil
	case !p.detached && rep.pin.take(as.responses):
		return source{rep: rep, pinned: as.responses}, nil
	case !p.stored || !from.reader.Sendable(&p.entry):
		return source{}, errNoRoom
	}
	field := ""
	if ranged {
		field = r.Header["Range"][0]
	}
	src := source{rep: &p.plain, stored: as.bodies.reader.Open(r.Context(), &p.entry, field), page: p, from: as.bodies}
	if err := src.stored.Begin(as.bodies.patience); err != nil {
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
		return s.from.reader.Pieces().Writer(w)
	}
	return w
}

func (s *source) mustHaveSent() {
	if s.stored != nil {
		mustHaveSent(s.stored, func(err error) { s.from.suspect(s.page, err) })
	}
}

// mustHaveSent breaks the connection if a body could not be read to its end, as the visitor must not take what
// was sent for all of it. suspect is called with the error, unless the visitor went away.
func mustHaveSent(body *bodies.Body, suspect func(error)) {
	err, canceled := body.Err()
	if err == nil {
		return
	}
	if !canceled {
		suspect(err)
	}
	panic(http.ErrAbortHandler)
}

func (s *source) close() {
	if s.pinned != nil {
		s.rep.pin.give(s.pinned)
	}
	if s.stored != nil {
		s.stored.Close()
	}
}
