package nodecache

import (
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

// A page that leaves memory to make room leaves its stub there: all but its body. As long as its stub
// may be served, by the rules for pages in memory, a request for it reads the body and nothing else:
//
//	evict -> stub, under the lock of the page's key
//	hit   -> the page is in memory: serve
//	      -> its stub is: read the body, put the page back with the stub's interval of the read and its
//	         purges, and decide again as if it had never left
//	Invalidate, Put -> the stub is removed, under the same lock
//
// The stub and its page share one mark of being dropped, so that a page that was made of a stub is
// dropped with it, even if it is not in memory any more. A stale page is looked for in the table,
// whatever its stub says: there may be a newer one.

const (
	// stubShare is the largest part of the memory tier that stubs take, as a divisor. They take it as
	// pages are evicted: while all pages fit there are none.
	stubShare = 2
	// stubOverhead is the memory of a stub in addition to its texts, as measured.
	stubOverhead = 320
)

// A Stub is a page without its body. It is immutable, except its mark of being dropped and its count of
// requests. Its methods are safe for concurrent use.
type Stub struct {
	text     string // of the entry (see page.Pack)
	read     page.Interval
	purges   *store.PurgeState // shared by pages with the same ones
	dropped  *atomic.Bool      // the page's
	sum      uint64            // of the body, which was verified when it was read first
	unread   bool              // the body was not read yet: there is no sum
	none     coding.Has        // the codings that are known not to exist
	absent   bool              // there are no codings beside the body
	requests atomic.Uint32     // that did not put the page back into memory
}

// newStub returns the stub of a page, nil if it has none: its body may change, or is not in the store.
func (c *Cache) newStub(p *page.Page) *Stub {
	if !p.Stored || p.Negative || c.IsDropped(p) {
		return nil
	}
	text, ok := page.Pack(&p.Entry)
	if !ok {
		return nil
	}
	s := &Stub{text: text, read: p.Read, dropped: p.Dropped, unread: p.Detached}
	if !s.unread {
		s.sum = maphash.Bytes(c.seed, p.Body())
	}
	if s.purges = c.last.Load(); s.purges == nil || *s.purges != p.Purges {
		s.purges = new(p.Purges)
		c.last.Store(s.purges)
	}
	_, s.none, s.absent = p.KnownCodings()
	return s
}

func (s *Stub) weight(k store.Key) uint32 {
	return uint32(stubOverhead + len(s.text) + len(k.Tenant) + len(k.Text)) //nolint:gosec // bounded by the header limit
}

// page returns the page of a stub without its body, to be judged and not to be served.
func (s *Stub) page(k store.Key) *page.Page { return s.Page(new(page.Memory), k) }

// Page returns the page of a stub without its body, to be judged and not to be served. It is made in m,
// which the next call reuses.
func (s *Stub) Page(m *page.Memory, k store.Key) *page.Page {
	return m.Unpack(k, s.text, s.purges, s.read, s.dropped)
}

// Record returns the entry of a stub and its purges, as they were read, and when that was.
func (s *Stub) Record() (store.Record, page.Interval) {
	e := page.Unpack(s.text)
	return store.Record{Entry: &e, Purges: *s.purges}, s.read
}

// Detached returns the page of a stub without its body, to be sent by what the store has. e is the entry
// of the stub.
func (s *Stub) Detached(k store.Key, e store.Entry, as *page.View) *page.Page {
	p := page.NewDetached(k, e, *s.purges, s.read, as)
	s.Share(p)
	if p.Codable {
		s.SetCodings(p)
	}
	return p
}

// Share makes a page share the mark of the stub: it is dropped with it.
func (s *Stub) Share(p *page.Page) { p.Dropped = s.dropped }

// SetCodings tells a page which codings are known not to exist.
func (s *Stub) SetCodings(p *page.Page) { p.SetCodings(s.none, s.absent) }

// Codings returns the codings that are known not to exist, and whether there are none beside the body.
func (s *Stub) Codings() (none coding.Has, absent bool) { return s.none, s.absent }

// Count counts a request that does not put the page back into memory, and returns how many there were.
func (s *Stub) Count() uint32 { return s.requests.Add(1) }

// Matches reports whether a body, whose length the entry has, is the one that was verified when the page
// was read first.
func (c *Cache) Matches(s *Stub, length int64, body []byte) bool {
	return int64(len(body)) == length && maphash.Bytes(c.seed, body) == s.sum
}

// Stub returns the stub of a key if its page may be served; nil if there is none.
func (c *Cache) Stub(k store.Key) *Stub {
	if c.stubs == nil {
		return nil
	}
	s, _ := c.stubs.GetIfPresent(k)
	if s == nil || s.dropped.Load() || c.flushed.since(s.read.Began) {
		return nil
	}
	return s
}

// evicted keeps the stub of a page that is evicted. It is called under the lock of its key.
func (c *Cache) evicted(p *page.Page) {
	_, none, absent := p.KnownCodings()
	if s := c.Stub(p.Key); s != nil && s.dropped == p.Dropped && s.none == none && s.absent == absent {
		return // the page was made of it
	}
	c.addStub(p)
}

// keepStub keeps the stub of a detached page instead of the page, and returns what becomes of the page
// that it replaces, which was found or not. It is called under the lock of its key.
func (c *Cache) keepStub(p *page.Page, found bool) otter.ComputeOp {
	c.addStub(p)
	if found {
		return otter.InvalidateOp
	}
	return otter.CancelOp
}

// addStub keeps the stub of a page, if it has one. It is called under the lock of its key.
func (c *Cache) addStub(p *page.Page) {
	if s := c.newStub(p); s != nil {
		c.stubBytes.Add(int64(s.weight(p.Key)))
		c.stubs.Set(p.Key, s)
	}
}

// forgetStub removes the stub of a key. It is called under the lock of the key.
func (c *Cache) forgetStub(k store.Key) {
	if c.stubs != nil {
		c.stubs.Invalidate(k)
	}
}

// errChanged: the body of a stub is not what it was.
var errChanged = errors.New("the body has changed since it was read first")

// Restore makes a page of a stub, of its entry and of its body, and puts it back into memory, if there is
// room, nothing else was put by then, and it was not dropped. addCoding is called before that if the page
// may have codings. The caller judges the page.
func (c *Cache) Restore(k store.Key, s *Stub, e store.Entry, body []byte, as *page.View, addCoding func(*page.Page)) (*page.Page, error) {
	switch {
	case s.unread:
		if err := bodies.Verify(&e, body); err != nil {
			return nil, err
		}
	case !c.Matches(s, e.Length, body):
		return nil, fmt.Errorf("%w: %s", errChanged, e.BodyKey)
	}
	p := page.New(k, e, *s.purges, s.read, body, as)
	p.Stored = true
	s.Share(p)
	if p.Codable {
		s.SetCodings(p)
	}
	if p.Codable && !s.absent {
		addCoding(p)
	}
	s.requests.Store(0)
	c.restore(p)
	return p, nil
}

// restore puts a page back that was made of a stub, unless there is another one by then, or it was
// dropped.
func (c *Cache) restore(p *page.Page) {
	c.pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if found || c.IsDropped(p) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
	c.divide()
}

// divide gives pages the memory that stubs do not take, in steps of a sixty-fourth.
func (c *Cache) divide() {
	taken, given, step := c.stubBytes.Load(), c.given.Load(), c.limit.Load()/64
	if taken <= given && given-taken <= 2*step || !c.dividing.TryLock() {
		return
	}
	defer c.dividing.Unlock()
	c.divideLocked()
}

// divideLocked gives stubs a step more than they take. Callers must hold dividing.
func (c *Cache) divideLocked() {
	taken, limit, next := c.stubBytes.Load(), c.limit.Load(), int64(0)
	if taken > 0 {
		next = min(taken+limit/64, stubLimit(limit))
	}
	if c.given.Swap(next) != next {
		c.pages.SetMaximum(uint64(max(limit-next, 1))) //nolint:gosec // it is positive
	}
}

// stubLimit is what stubs may weigh in a memory tier of limit bytes.
func stubLimit(limit int64) int64 { return max(limit/stubShare, 1) }
