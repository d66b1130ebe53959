package isr

import (
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// outlinedPage returns a memory in which a page has just been evicted, and its outline.
func outlinedPage(t *testing.T) (*memory, *page.Page, *outline) {
	t.Helper()
	m, err := newMemory(1<<20, new(floor), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := page.Interval{Began: time.Now(), Ended: time.Now()}
	p := page.New(store.Key{Text: "h/"}, store.Entry{SHA256: strings.Repeat("00", 32), Version: 1}, store.PurgeState{}, at, []byte("body"), new(page.View))
	p.Stored = true
	m.evicted(p)
	o := m.outline(p.Key)
	if o == nil {
		t.Fatal("an evicted page has no outline")
	}
	return m, p, o
}

// A page that was made of an outline is dropped with the outline, wherever it is.
func TestRestoredPageIsDropped(t *testing.T) {
	m, evicted, o := outlinedPage(t)
	made := o.page(evicted.Key)
	m.drop(evicted.Key)
	if !m.isDropped(made) || !m.isDropped(evicted) || m.outline(evicted.Key) != nil {
		t.Error("a page whose outline was dropped may be served")
	}
	m.restore(made)
	if m.last(evicted.Key) != nil {
		t.Error("a page that was dropped while its body was read is put back")
	}
	m.evicted(evicted)
	if m.outline(evicted.Key) != nil {
		t.Error("a dropped page has an outline")
	}
}

// A page that is put into memory replaces the outline of an older one, and not of a newer one.
func TestPutComparesWithOutline(t *testing.T) {
	m, old, o := outlinedPage(t)
	newer := page.New(old.Key, store.Entry{Version: 2}, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View))
	older := page.New(old.Key, store.Entry{Version: 0}, store.PurgeState{}, page.Interval{Began: old.Read.Began.Add(-2), Ended: old.Read.Began.Add(-1)}, nil, new(page.View))
	if !m.put(older, new(flight)) || m.last(old.Key) != nil || m.outline(old.Key) != o {
		t.Error("an older page replaces an outline")
	}
	if !m.put(newer, new(flight)) || m.last(old.Key) != newer || m.outline(old.Key) != nil {
		t.Error("a newer page does not replace an outline")
	}
	m.floor.raise(time.Now())
	m.evicted(old)
	if m.outline(old.Key) != nil {
		t.Error("a page below the floor has an outline")
	}
}

// Outlines weigh what they take of memory, and pages get the rest.
func TestOutlinesTakeMemoryOfPages(t *testing.T) {
	m, p, o := outlinedPage(t)
	if got := m.outlineBytes.Load(); got != int64(o.weight(p.Key)) {
		t.Errorf("%d bytes of outlines, one has %d", got, o.weight(p.Key))
	}
	m.divide()
	if n := m.pages.GetMaximum(); int64(n)+m.outlineBytes.Load() > m.limit || int64(n) < m.limit-m.limit/32 {
		t.Errorf("pages may take %d of %d bytes beside %d of outlines", n, m.limit, m.outlineBytes.Load())
	}
	m.drop(p.Key)
	m.divide()
	if n := m.pages.GetMaximum(); m.outlineBytes.Load() != 0 || int64(n) < m.limit-m.limit/32 {
		t.Errorf("after the drop, %d bytes of outlines, and pages may take %d", m.outlineBytes.Load(), n)
	}
}
