package isr

import (
	"net/http"
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// The weight of a page in memory includes the codings that it got since.
func TestWeightCountsCodings(t *testing.T) {
	c := new(Cache)
	var err error
	if c.memory, err = newMemory(1<<20, &c.floor, nil); err != nil {
		t.Fatal(err)
	}
	if c.unpublished, err = newUnpublishedPages(1<<20, c); err != nil {
		t.Fatal(err)
	}
	if c.negative, err = newNegativeCache(1<<20, c); err != nil {
		t.Fatal(err)
	}
	p := page.New(store.Key{Text: "h/"}, store.Entry{Header: http.Header{"Content-Type": {"text/html"}}}, store.PurgeState{}, page.Interval{}, make([]byte, 2_800), page.NewView(page.ViewRules{Codings: coding.All()}))
	bare := uint64(p.Weight())
	c.memory.put(p, new(flight))
	c.memory.pages.CleanUp()
	before := c.memory.pages.WeightedSize()
	p.AddCodings(coding.Has{}, coding.Set{httpcache.Gzip: make([]byte, 5_000, 7_000)})
	c.reweigh(p)
	c.memory.pages.CleanUp()
	if grown := c.memory.pages.WeightedSize() - before; grown < 7_000 || grown != uint64(p.Weight())-bare {
		t.Errorf("the weight grew by %d for a coding of 7,000 bytes", grown)
	}
}
