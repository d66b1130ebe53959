package nodecache

import (
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// stubbedPage returns a cache in which a page has just been evicted, and its stub.
func stubbedPage(t *testing.T) (*Cache, *page.Page, *Stub) {
	t.Helper()
	c := testCache(t, time.Now())
	at := page.Interval{Began: time.Now(), Ended: time.Now()}
	p := page.New(store.Key{Text: "h/"}, store.Entry{SHA256: strings.Repeat("00", 32), Version: 1}, store.PurgeState{}, at, []byte("body"), new(page.View))
	p.Stored = true
	c.evicted(p)
	s := c.Stub(p.Key)
	if s == nil {
		t.Fatal("an evicted page has no stub")
	}
	return c, p, s
}

// A page that was made of a stub is dropped with the stub, wherever it is.
func TestRestoredPageIsDropped(t *testing.T) {
	c, evicted, s := stubbedPage(t)
	made := s.page(evicted.Key)
	c.Drop(evicted.Key)
	if !c.IsDropped(made) || !c.IsDropped(evicted) || c.Stub(evicted.Key) != nil {
		t.Error("a page whose stub was dropped may be served")
	}
	c.restore(made)
	if c.Last(evicted.Key) != nil {
		t.Error("a page that was dropped while its body was read is put back")
	}
	c.evicted(evicted)
	if c.Stub(evicted.Key) != nil {
		t.Error("a dropped page has a stub")
	}
}

// A page that is put into memory replaces the stub of an older one, and not of a newer one.
func TestPutComparesWithStub(t *testing.T) {
	c, old, s := stubbedPage(t)
	newer := page.New(old.Key, store.Entry{Version: 2}, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View))
	older := page.New(old.Key, store.Entry{Version: 0}, store.PurgeState{}, page.Interval{Began: old.Read.Began.Add(-2), Ended: old.Read.Began.Add(-1)}, nil, new(page.View))
	if !c.Put(older, new(singleflight.State)) || c.Last(old.Key) != nil || c.Stub(old.Key) != s {
		t.Error("an older page replaces a stub")
	}
	if !c.Put(newer, new(singleflight.State)) || c.Last(old.Key) != newer || c.Stub(old.Key) != nil {
		t.Error("a newer page does not replace a stub")
	}
	c.Flush(time.Now())
	c.evicted(old)
	if c.Stub(old.Key) != nil {
		t.Error("a page from before the flush has a stub")
	}
}

// Stubs weigh what they take of memory, and pages get the rest.
func TestStubsTakeMemoryOfPages(t *testing.T) {
	c, p, s := stubbedPage(t)
	if got := c.stubBytes.Load(); got != int64(s.weight(p.Key)) {
		t.Errorf("%d bytes of stubs, one has %d", got, s.weight(p.Key))
	}
	c.divide()
	if n := c.pages.GetMaximum(); int64(n)+c.stubBytes.Load() > c.Limit() || int64(n) < c.Limit()-c.Limit()/32 {
		t.Errorf("pages may take %d of %d bytes beside %d of stubs", n, c.Limit(), c.stubBytes.Load())
	}
	c.Drop(p.Key)
	c.divide()
	if n := c.pages.GetMaximum(); c.stubBytes.Load() != 0 || int64(n) < c.Limit()-c.Limit()/32 {
		t.Errorf("after the drop, %d bytes of stubs, and pages may take %d", c.stubBytes.Load(), n)
	}
}
