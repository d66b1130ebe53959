package nodecache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

func testNegative(t *testing.T, bytes int64) *Negative {
	t.Helper()
	n, err := newNegative(bytes, testCache(t, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Requests for failing, uncacheable and unknown URLs fill only the share of negative
// entries, and evict no pages.
func TestNegativeEntriesAreBounded(t *testing.T) {
	const bytes = 16 << 20
	c, err := New(Options{Memory: bytes, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pageOf := func(k store.Key, body string) *page.Page {
		return page.New(k, store.Entry{GeneratedAt: now, Revalidate: time.Minute, Status: 200, Header: http.Header{"Content-Type": {"image/png"}}}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, []byte(body), new(page.View))
	}
	const pages = 100
	for i := range pages {
		c.Put(pageOf(store.Key{Text: fmt.Sprint("page", i)}, strings.Repeat("x", 1000)), new(singleflight.State))
	}
	for i := range 30_000 {
		k := store.Key{Text: fmt.Sprint("key", i)}
		e := &NegativeEntry{ReadAt: now, Until: now.Add(time.Minute)}
		switch i % 3 {
		case 0:
			e.Failed = &render.Response{Status: 500, Header: http.Header{"X-A": {strings.Repeat("h", 8<<10)}}, Body: make([]byte, render.MaxFailedBody)}
		case 1:
			e.Refused = httpcache.RefusedPrivate
		case 2:
			e.Page = pageOf(k, strings.Repeat("y", 10<<10))
		}
		c.Negative.Put(k, e, new(singleflight.State))
	}
	c.Negative.byKey.CleanUp()
	c.pages.CleanUp()
	if w := c.Negative.byKey.WeightedSize(); w > bytes/16 {
		t.Errorf("negative entries weigh %d bytes, want at most %d", w, bytes/16)
	}
	var held int
	for _, e := range c.Negative.byKey.All() {
		if e.Failed != nil {
			held += cap(e.Failed.Body)
		}
		if e.Page != nil {
			held += cap(e.Page.Body())
		}
	}
	if held > bytes/16 {
		t.Errorf("negative entries hold %d bytes of bodies", held)
	}
	if n := c.pages.EstimatedSize(); n != pages {
		t.Errorf("%d of the site's %d pages are left", n, pages)
	}
}

// An entry that is too large is kept without its body, or not kept.
func TestLargeNegativeEntries(t *testing.T) {
	n := testNegative(t, 64<<10)
	now := time.Now()
	k, until := store.Key{Text: "h/"}, now.Add(time.Minute)
	n.Put(k, &NegativeEntry{ReadAt: now, Until: until, Failed: &render.Response{Status: 503, Body: make([]byte, render.MaxFailedBody)}}, new(singleflight.State))
	e := n.Get(k, now)
	if e == nil || e.Failed.Status != 503 || len(e.Failed.Body) > 200 {
		t.Errorf("of a large failure %+v is remembered, want its status and a plain sentence", e)
	}
	large := page.New(k, store.Entry{Status: 404}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, make([]byte, 9<<10), new(page.View))
	if n.Put(k, &NegativeEntry{ReadAt: now, Until: until, Page: large}, new(singleflight.State)) || n.Get(k, now) != nil {
		t.Error("an answer is kept that would take more than its part, or what was remembered before is")
	}
}

// A refusal is not renewed after an invalidation has removed it.
func TestInvalidationRemovesRenewedRefusal(t *testing.T) {
	n := testNegative(t, 1<<20)
	now := time.Now()
	k := store.Key{Text: "h/"}
	refusal := func() *NegativeEntry {
		return &NegativeEntry{ReadAt: now, Until: now.Add(time.Minute), Refused: httpcache.RefusedPrivate}
	}
	first, second, third := refusal(), refusal(), refusal()
	n.Put(k, first, new(singleflight.State))
	n.Renew(k, first, second)
	if n.Get(k, now) != second {
		t.Error("the refusal is not renewed")
	}
	n.Forget(k)
	n.Renew(k, second, third)
	if n.Get(k, now) != nil {
		t.Error("the refusal is back")
	}
}
