package isr

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

func testNegativeCache(t *testing.T, bytes int64) *negativeCache {
	t.Helper()
	c := &Cache{now: time.Now}
	c.floor.raise(time.Now())
	n, err := newNegativeCache(bytes, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Requests for failing, uncacheable and unknown URLs fill only the share of negative
// entries, and evict no pages.
func TestNegativeEntriesAreBounded(t *testing.T) {
	const bytes = 16 << 20
	c, err := New(nil, nil, Config{Memory: bytes, Poll: -1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pageOf := func(k store.Key, body string) *page.Page {
		return page.New(k, store.Entry{GeneratedAt: now, Revalidate: time.Minute, Status: 200, Header: http.Header{"Content-Type": {"image/png"}}}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, []byte(body), new(page.View))
	}
	const pages = 100
	for i := range pages {
		c.memory.put(pageOf(store.Key{Text: fmt.Sprint("page", i)}, strings.Repeat("x", 1000)), new(flight))
	}
	for i := range 30_000 {
		k := store.Key{Text: fmt.Sprint("key", i)}
		e := &negativeEntry{readAt: now, until: now.Add(time.Minute)}
		switch i % 3 {
		case 0:
			e.failed = &render.Response{Status: 500, Header: http.Header{"X-A": {strings.Repeat("h", 8<<10)}}, Body: make([]byte, render.MaxFailedBody)}
		case 1:
			e.refused = httpcache.RefusedPrivate
		case 2:
			e.page = pageOf(k, strings.Repeat("y", 10<<10))
		}
		c.negative.put(k, e, new(flight))
	}
	c.negative.byKey.CleanUp()
	c.memory.pages.CleanUp()
	if w := c.negative.byKey.WeightedSize(); w > bytes/16 {
		t.Errorf("negative entries weigh %d bytes, want at most %d", w, bytes/16)
	}
	var held int
	for _, e := range c.negative.byKey.All() {
		if e.failed != nil {
			held += cap(e.failed.Body)
		}
		if e.page != nil {
			held += cap(e.page.Body())
		}
	}
	if held > bytes/16 {
		t.Errorf("negative entries hold %d bytes of bodies", held)
	}
	if n := c.memory.pages.EstimatedSize(); n != pages {
		t.Errorf("%d of the site's %d pages are left", n, pages)
	}
}

// An entry that is too large is kept without its body, or not kept.
func TestLargeNegativeEntries(t *testing.T) {
	n := testNegativeCache(t, 64<<10)
	now := time.Now()
	k, until := store.Key{Text: "h/"}, now.Add(time.Minute)
	n.put(k, &negativeEntry{readAt: now, until: until, failed: &render.Response{Status: 503, Body: make([]byte, render.MaxFailedBody)}}, new(flight))
	e := n.get(k, now)
	if e == nil || e.failed.Status != 503 || len(e.failed.Body) > 200 {
		t.Errorf("of a large failure %+v is remembered, want its status and a plain sentence", e)
	}
	large := page.New(k, store.Entry{Status: 404}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, make([]byte, 9<<10), new(page.View))
	if n.put(k, &negativeEntry{readAt: now, until: until, page: large}, new(flight)) || n.get(k, now) != nil {
		t.Error("an answer is kept that would take more than its part, or what was remembered before is")
	}
}

// A refusal is not renewed after a reload has removed it.
func TestReloadRemovesRenewedRefusal(t *testing.T) {
	n := testNegativeCache(t, 1<<20)
	now := time.Now()
	k := store.Key{Text: "h/"}
	refusal := func() *negativeEntry {
		return &negativeEntry{readAt: now, until: now.Add(remembered), refused: httpcache.RefusedPrivate}
	}
	first, second, third := refusal(), refusal(), refusal()
	n.put(k, first, new(flight))
	n.renew(k, first, second)
	if n.get(k, now) != second {
		t.Error("the refusal is not renewed")
	}
	n.forget(k)
	n.renew(k, second, third)
	if n.get(k, now) != nil {
		t.Error("the refusal is back")
	}
}
