package isr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
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
// memory keeps its stub alone. Whole bodies are sent so if they are on a local disk, longer than
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

// sentFromDisk reports whether whole bodies of a detached page are sent from the local disk.
func (c *Cache) sentFromDisk(p *page.Page) bool {
	return c.reader.HasLocal() && p.Size() > maxLoaded && !p.Codable
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

// detached returns the page of the stub of a decision without its body, if the request is answered
// so; else nil.
func (h *handler) detached(r *http.Request, d *decision) *page.Page {
	o, e := d.stub, &d.page.Entry
	light := lightRequest(r)
	if !h.c.reader.Sendable(e) || light == nil && (!h.c.reader.HasLocal() || e.Length <= maxLoaded) {
		return nil
	}
	p := o.Detached(d.page.Key, *e, h.route.present)
	if light != nil {
		h.c.encoder.Describe(r.Context(), p, h.route.present, httpcache.AcceptEncoding(r.Header["Accept-Encoding"]))
	}
	if p.IsLight(light, h.route.present) || h.c.sentFromDisk(p) && (p.Size() > h.c.node.Limit()/maxShare || o.Count() < maxLoads) {
		return p
	}
	return nil
}

// detached returns the page of an entry without its body, if that suffices for the request that started
// the fill, or is how such bodies are sent; else nil. A body that is sent whole is verified, so that a
// damaged one is found before its page is served; the error is then as of fill.body.
func (s *fill) detached(ctx context.Context, rec store.Record, read page.Interval) (*page.Page, error) {
	e := *rec.Entry
	if !s.c.reader.Sendable(&e) {
		return nil, nil
	}
	p := page.NewDetached(s.key, e, rec.Purges, read, s.policy.present)
	if s.light != nil {
		s.c.encoder.Describe(ctx, p, s.policy.present, s.accept)
	}
	switch {
	case p.IsLight(s.light, s.policy.present):
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
func (c *Cache) sendRest(ctx context.Context, w http.ResponseWriter, p *page.Page, offset int64) {
	body := c.reader.Open(ctx, &p.Entry, "")
	defer body.Close()
	if _, err := body.Seek(offset, io.SeekStart); err == nil { // it fails for no offset of a body
		body.Send(w)
	}
	page.MustHaveSent(body, func(err error) { c.suspect(p, err) })
}

// suspect has the body of a page read and verified as a whole when the page is requested next.
func (c *Cache) suspect(p *page.Page, err error) {
	c.reader.Suspect(p.Entry.BodyKey)
	c.node.Drop(p.Key)
	c.complaints.Log("the body of a page cannot be sent from the store; it is verified", "key", p.Key.String(), "body", p.Entry.BodyKey, "error", err)
}
