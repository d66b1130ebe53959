package isr

import (
	"context"
	"maps"
	"net/http"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/encoder"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// If memory holds a page without its body, and the body's file is in the OS page cache, the request is a hit:
//
//	stub ──► read the file, which waits for nothing ──► the sum is the body's ──► serve
//
// The page is made for one response, and forgotten with it: its memory is used again. One that is
// requested again and again is put back into memory (see package nodecache): there it takes a third of the
// time. So pages that are requested once do not displace those that are requested often, and leave
// little garbage.
//
// That the content of a file is what it was is verified at each read: the body by a hash of this
// process, which it made after it had verified the digest of the entry, codings by their own sum.

// maxLoads is after how many of its requests a page is put back into memory.
const maxLoads = 32

// atHand returns the page of a decision, for its request alone, if no more than what the system has
// in memory is needed. It is valid until the buffer, which grows as needed, is used again. Nil: the
// page is to be loaded.
func (h *handler) atHand(r *http.Request, d *decision, buffer *[]byte) *page.Page {
	o, p := d.stub, d.page
	e := &p.Entry
	switch {
	case !h.c.reader.HasCached(), e.Length == 0, e.Length > bodies.MaxCached, o.Count() >= maxLoads:
		return nil
	case h.route.EarlyRefresh > 0 && p.MayBeDueEarly(d.now, h.route.EarlyRefresh):
		return nil // a page that is refreshed must last
	case r.Header["Range"] != nil:
		return nil
	case e.Header.Get("Content-Type") == "":
		return nil // the body says whether codings are to be made, which outlast the buffer
	}
	as, got, body := h.route.present, encoder.Stored{}, []byte(nil)
	accept := httpcache.AcceptEncoding(r.Header["Accept-Encoding"])
	none, absent := o.Codings()
	wants := accept.Prefer(as.Codings.Without(none)) != httpcache.Identity && coding.Useful(e.Header.Get("Content-Type"), e.Length)
	if wants && (absent || !h.c.codingAtHand(r.Context(), e, as, accept, buffer, &got)) {
		return nil // one is to be made, or to be read from elsewhere
	}
	if !got.HasContent() {
		if body = h.c.bodyAtHand(r.Context(), o, e, buffer); body == nil {
			return nil
		}
	}
	p.PrepareOnce(d.key, body, as)
	switch {
	case wants:
		got.AddTo(p)
	case none != coding.Has{}:
		p.SetCodings(none, absent)
	}
	return p
}

// bodyAtHand returns the body of a stub whose entry is e; nil if it is not at hand, or not what
// it was.
func (c *Cache) bodyAtHand(ctx context.Context, o *nodecache.Stub, e *store.Entry, buffer *[]byte) []byte {
	body, err := c.reader.Cached(ctx, e.BodyKey, e.Length, buffer)
	if err != nil || !c.node.Matches(o, e.Length, body) {
		return nil
	}
	return body
}

// codingAtHand reads the coding that a visitor prefers of those beside the body of an entry. It
// returns false if they are not at hand, or damaged.
func (c *Cache) codingAtHand(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept, buffer *[]byte, got *encoder.Stored) bool {
	all, err := c.reader.Cached(ctx, store.CodingsKey(e.BodyKey), encoder.MaxStored(e.Length), buffer)
	if err != nil {
		return false
	}
	*got, err = encoder.Choose(all, e, as, accept)
	return err == nil
}

// A visitor whose page is in memory without its body waits for the disk, within
// Config.StoreTimeout. All that ask for the page at once share one read, which is not a flight:
// it searches for nothing, and renders nothing.

// stubbed reports whether the page of a decision is to be read from the local disk: its stub is
// in memory, and fresh.
func (h *handler) stubbed(d *decision) bool {
	if !h.c.reader.HasLocal() || d.sought || d.minSeq > 0 || h.c.stores.BodiesDown() {
		return false
	}
	o := h.c.node.Stub(d.key)
	if o == nil {
		return false
	}
	m := d.memory
	if m == nil {
		m = new(page.Memory)
	}
	p := o.Page(m, d.key)
	if state, _ := h.judge(nil, p, d.now); state != store.Fresh {
		return false
	}
	d.stub, d.page = o, p
	return true
}

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
// MaxLoaded and without codings, until they have been requested maxLoads times; and from any store if
// there is no room for them in memory (see pin).
//
// What is verified of a range is its length: no digest is known of a part of a body. A body that turns
// out to be missing or damaged is suspect: it is read and verified as a whole next, and rendered again.

// maxShare is the largest part of the memory tier, as a divisor, that a body may take that is put there
// because it is requested often.
const maxShare = 8

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
	if !h.c.reader.Sendable(e) || light == nil && (!h.c.reader.HasLocal() || e.Length <= fill.MaxLoaded) {
		return nil
	}
	p := o.Detached(d.page.Key, *e, h.route.present)
	if light != nil {
		h.c.encoder.Describe(r.Context(), p, h.route.present, httpcache.AcceptEncoding(r.Header["Accept-Encoding"]))
	}
	if p.IsLight(light, h.route.present) || h.c.engine.SentFromDisk(p) && (p.Size() > h.c.node.Limit()/maxShare || o.Count() < maxLoads) {
		return p
	}
	return nil
}
