package isr

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// A page that leaves memory to make room leaves its outline there: all but its body. As long as
// its outline may be served, by the rules for pages in memory, a request for it reads the body and
// nothing else:
//
//	evict -> outline, under the lock of the page's key
//	hit   -> the page is in memory: serve
//	      -> its outline is: read the body, put the page back with the outline's reading and
//	         purges, and decide again as if it had never left
//	reload, put -> the outline is removed, under the same lock
//
// The outline and its page share one mark of being dropped, so that a page that was made of an
// outline is dropped with it, even if it is not in memory any more. A stale page is looked for in
// the table, whatever its outline says: there may be a newer one.

const (
	// outlineShare is the largest part of the memory tier that outlines take, as a divisor. They
	// take it as pages are evicted: while all pages fit there are none.
	outlineShare = 2
	// outlineOverhead is the memory of an outline in addition to its texts, as measured.
	outlineOverhead = 320
)

// An outline is a page without its body. It is immutable, except its mark of being dropped.
type outline struct {
	text    string // of the entry (see Pack)
	read    page.Interval
	cover   *store.PurgeState // shared by pages with the same one
	dropped *atomic.Bool      // the page's
	sum     uint64            // of the body, which was verified when it was read first
	unread  bool              // the body was not read yet: there is no sum
	none    coding.Has        // the codings that are known not to exist
	absent  bool              // there are no codings beside the body
	loads   atomic.Uint32     // of the page without putting it back into memory
}

// newOutline returns the outline of a page, nil if it has none: its body may change, or is not in
// the store.
func (m *memory) newOutline(p *page.Page) *outline {
	if !p.Stored || p.Negative || m.isDropped(p) {
		return nil
	}
	text, ok := page.Pack(&p.Entry)
	if !ok {
		return nil
	}
	o := &outline{text: text, read: p.Read, dropped: p.Dropped, unread: p.Detached}
	if !o.unread {
		o.sum = maphash.Bytes(m.seed, p.Body())
	}
	if o.cover = m.cover.Load(); o.cover == nil || *o.cover != p.Purges {
		o.cover = new(p.Purges)
		m.cover.Store(o.cover)
	}
	_, o.none, o.absent = p.KnownCodings()
	return o
}

func (o *outline) weight(k store.Key) uint32 {
	return uint32(outlineOverhead + len(o.text) + len(k.Tenant) + len(k.Text)) //nolint:gosec // bounded by the header limit
}

// page returns the page of an outline without its body, to be judged and not to be served.
func (o *outline) page(k store.Key) *page.Page { return o.pageIn(new(page.Memory), k) }

// pageIn is page, made in memory that the next call reuses.
func (o *outline) pageIn(m *page.Memory, k store.Key) *page.Page {
	return m.Unpack(k, o.text, o.cover, o.read, o.dropped)
}

// outline returns the outline of a key if its page may be served; nil if there is none.
func (m *memory) outline(k store.Key) *outline {
	if m.outlines == nil {
		return nil
	}
	o, _ := m.outlines.GetIfPresent(k)
	if o == nil || o.dropped.Load() || m.floor.above(o.read.Began) {
		return nil
	}
	return o
}

// known returns the page of a key if it may be served, or nil. It may lack its body.
func (m *memory) known(k store.Key) *page.Page {
	if p := m.get(k); p != nil {
		return p
	}
	if o := m.outline(k); o != nil {
		return o.page(k)
	}
	return nil
}

// evicted keeps the outline of a page that is evicted. It is called under the lock of its key.
func (m *memory) evicted(p *page.Page) {
	_, none, absent := p.KnownCodings()
	if o := m.outline(p.Key); o != nil && o.dropped == p.Dropped && o.none == none && o.absent == absent {
		return // the page was made of it
	}
	if o := m.newOutline(p); o != nil {
		m.outlineBytes.Add(int64(o.weight(p.Key)))
		m.outlines.Set(p.Key, o)
	}
}

// forgetOutline removes the outline of a key. It is called under the lock of the key.
func (m *memory) forgetOutline(k store.Key) {
	if m.outlines != nil {
		m.outlines.Invalidate(k)
	}
}

// restore puts a page back that was made of an outline, unless there is another one by then, or
// it was dropped.
func (m *memory) restore(p *page.Page) {
	m.pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if found || m.isDropped(p) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
	m.divide()
}

// divide gives pages the memory that outlines do not take, in steps of a sixty-fourth.
func (m *memory) divide() {
	taken, given, step := m.outlineBytes.Load(), m.given.Load(), m.limit/64
	if taken <= given && given-taken <= 2*step {
		return
	}
	next := int64(0)
	if taken > 0 {
		next = min(taken+step, m.limit/outlineShare)
	}
	if next != given && m.given.CompareAndSwap(given, next) {
		m.pages.SetMaximum(uint64(m.limit - next)) //nolint:gosec // it is positive
	}
}

// errRestored: the body of an outline is not what it was.
var errRestored = errors.New("the body has changed since it was read first")

// restored makes a page of an outline, of its entry and of its body, and puts it back into memory,
// if there is room. The caller judges it.
func (c *Cache) restored(k store.Key, o *outline, e store.Entry, body []byte, as *page.View, addCoding func(*page.Page)) (*page.Page, error) {
	switch {
	case o.unread:
		if err := bodies.Verify(&e, body); err != nil {
			return nil, err
		}
	case int64(len(body)) != e.Length || maphash.Bytes(c.memory.seed, body) != o.sum:
		return nil, fmt.Errorf("%w: %s", errRestored, e.BodyKey)
	}
	p := page.New(k, e, *o.cover, o.read, body, as)
	p.Stored, p.Dropped = true, o.dropped
	if p.Codable {
		p.SetCodings(o.none, o.absent)
	}
	if p.Codable && !o.absent {
		addCoding(p)
	}
	o.loads.Store(0)
	c.memory.restore(p)
	return p, nil
}

// A visitor whose page is in memory without its body waits for the disk, within
// Config.StoreTimeout. All that ask for the page at once share one read, which is not a flight:
// it searches for nothing, and renders nothing.

// outlined reports whether the page of a decision is to be read from the local disk: its outline
// is in memory, and fresh.
func (h *handler) outlined(d *decision) bool {
	if !h.c.reader.HasLocal() || d.sought || d.minSeq > 0 || h.c.stores.BodiesDown() {
		return false
	}
	o := h.c.memory.outline(d.key)
	if o == nil {
		return false
	}
	m := d.memory
	if m == nil {
		m = new(page.Memory)
	}
	p := o.pageIn(m, d.key)
	if state, _ := h.judge(nil, p, d.now); state != store.Fresh {
		return false
	}
	d.outline, d.page = o, p
	return true
}

// recall returns the page of an outline that a visitor may get without a look at the table; nil
// if there is none. It reads the body from the store.
func (s *fill) recall(ctx context.Context) *page.Page {
	if s.force || s.early != nil || s.minSeq > 0 || s.claim != nil {
		return nil
	}
	o, now := s.c.memory.outline(s.key), s.c.now()
	if o == nil {
		return nil
	}
	if p := o.page(s.key); s.c.late(p, now) || s.c.blind(now) || s.c.state(s.f, p, now) != store.Fresh {
		return nil
	}
	e := page.Unpack(o.text)
	if p, err := s.detached(ctx, store.Record{Entry: &e, Purges: *o.cover}, o.read); p != nil || err != nil {
		if p == nil {
			return nil // the fill goes on, and finds the reason
		}
		p.Dropped = o.dropped
		return p
	}
	addCoding := func(*page.Page) {}
	if !o.absent {
		addCoding = s.c.encoder.Prefetch(ctx, &e, s.policy.present, s.accept)
	}
	body, err := s.c.reader.ReadOnce(ctx, s.key, &e)
	if err != nil {
		return nil // the fill goes on, and finds the reason
	}
	p, err := s.c.restored(s.key, o, e, body, s.policy.present, addCoding)
	if err != nil || s.c.memory.isDropped(p) {
		return nil
	}
	return p
}
