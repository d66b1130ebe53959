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

// An outline is a page without its body. It is immutable, but for its mark of being dropped.
type outline struct {
	text    string // of the entry (see entryText)
	read    reading
	cover   *store.PurgeState // shared by pages with the same one
	dropped *atomic.Bool      // that of the page
	sum     uint64            // of the body, which was verified when it was read first
	unread  bool              // the body was not read yet: there is no sum
	none    coding.Has        // the codings that are known not to exist
	absent  bool              // there are no codings beside the body
	loads   atomic.Uint32     // of the page without putting it back into memory
}

// newOutline returns the outline of a page, nil if it has none: its body may change, or is not in
// the store.
func (m *memory) newOutline(p *page) *outline {
	if !p.stored || p.negative || m.isDropped(p) {
		return nil
	}
	text, ok := entryText(&p.entry)
	if !ok {
		return nil
	}
	o := &outline{text: text, read: p.read, dropped: p.dropped, unread: p.detached}
	if !o.unread {
		o.sum = maphash.Bytes(m.seed, p.body())
	}
	if o.cover = m.cover.Load(); o.cover == nil || *o.cover != p.cover {
		o.cover = new(p.cover)
		m.cover.Store(o.cover)
	}
	_, o.none, o.absent = p.knownCodings()
	return o
}

func (o *outline) weight(k store.Key) uint32 {
	return uint32(outlineOverhead + len(o.text) + len(k.Tenant) + len(k.Text)) //nolint:gosec // bounded by the header limit
}

// page returns the page of an outline without its body, to be judged and not to be served.
func (o *outline) page(k store.Key) *page { return o.pageIn(new(pageMemory), k) }

// pageIn is page, made in memory that the next call reuses.
func (o *outline) pageIn(m *pageMemory, k store.Key) *page {
	return m.unpack(k, o.text, o.cover, o.read, o.dropped)
}

// A pageMemory is memory of a page that is forgotten with the response that it is made for, and used for
// another page next.
type pageMemory struct {
	made  page
	entry entryMemory
}

// unpack returns the page of the text of an entry, without its body, until the next one is made. It shares the
// mark dropped.
func (m *pageMemory) unpack(k store.Key, text string, cover *store.PurgeState, read reading, dropped *atomic.Bool) *page {
	p, fields := &m.made, m.made.fields[:0]
	*p = page{key: k, entry: m.entry.parse(text), cover: *cover, read: read, dropped: dropped, fields: fields}
	return p
}

// outline returns the outline of a key if its page may be served; nil without.
func (m *memory) outline(k store.Key) *outline {
	if m.outlines == nil {
		return nil
	}
	o, _ := m.outlines.GetIfPresent(k)
	if o == nil || o.dropped.Load() || m.floor.above(o.read.began) {
		return nil
	}
	return o
}

// known returns the page of a key if it may be served, or nil. It may lack its body.
func (m *memory) known(k store.Key) *page {
	if p := m.get(k); p != nil {
		return p
	}
	if o := m.outline(k); o != nil {
		return o.page(k)
	}
	return nil
}

// evicted keeps the outline of a page that is evicted. It is called under the lock of its key.
func (m *memory) evicted(p *page) {
	_, none, absent := p.knownCodings()
	if o := m.outline(p.key); o != nil && o.dropped == p.dropped && o.none == none && o.absent == absent {
		return // the page was made of it
	}
	if o := m.newOutline(p); o != nil {
		m.outlineBytes.Add(int64(o.weight(p.key)))
		m.outlines.Set(p.key, o)
	}
}

// forgetOutline removes the outline of a key. It is called under the lock of the key.
func (m *memory) forgetOutline(k store.Key) {
	if m.outlines != nil {
		m.outlines.Invalidate(k)
	}
}

// restore puts a page back that was made of an outline, unless there is another one meanwhile, or
// it was dropped.
func (m *memory) restore(p *page) {
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
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
func (c *Cache) restored(k store.Key, o *outline, e store.Entry, body []byte, as *presentation, addCoding func(*page)) (*page, error) {
	switch {
	case o.unread:
		if err := bodies.Verify(&e, body); err != nil {
			return nil, err
		}
	case int64(len(body)) != e.Length || maphash.Bytes(c.memory.seed, body) != o.sum:
		return nil, fmt.Errorf("%w: %s", errRestored, e.BodyKey)
	}
	p := newPage(k, e, *o.cover, o.read, body, as)
	p.stored, p.dropped = true, o.dropped
	if p.codable {
		p.setCodings(o.none, o.absent)
	}
	if p.codable && !o.absent {
		addCoding(p)
	}
	o.loads.Store(0)
	c.memory.restore(p)
	return p, nil
}

// A visitor whose page is in memory but for its body waits for the disk, within
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
		m = new(pageMemory)
	}
	p := o.pageIn(m, d.key)
	if state, _ := h.judge(nil, p, d.now); state != store.Fresh {
		return false
	}
	d.outline, d.page = o, p
	return true
}

// recall returns the page of an outline that a visitor may get without a look at the table; nil
// without. It reads the body from the store.
func (s *fill) recall(ctx context.Context) *page {
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
	e := parseEntry(o.text)
	if p, err := s.detached(ctx, store.Record{Entry: &e, Purges: *o.cover}, o.read); p != nil || err != nil {
		if p == nil {
			return nil // the fill goes on, and finds the reason
		}
		p.dropped = o.dropped
		return p
	}
	addCoding := func(*page) {}
	if !o.absent {
		addCoding = s.c.coder.prefetch(ctx, &e, s.route.present, s.accept)
	}
	body, err := s.c.reader.ReadOnce(ctx, s.key, &e)
	if err != nil {
		return nil // the fill goes on, and finds the reason
	}
	p, err := s.c.restored(s.key, o, e, body, s.route.present, addCoding)
	if err != nil || s.c.memory.isDropped(p) {
		return nil
	}
	return p
}
