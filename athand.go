package isr

import (
	"context"
	"net/http"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/encoder"
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
