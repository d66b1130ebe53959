package isr

import (
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// The weight of a page counts the capacity of its slices, not their length.
func TestWeightCountsCapacity(t *testing.T) {
	body := make([]byte, 10_000, 30_000)
	p := newPage(store.Key{Text: "h/"}, store.Entry{Tags: []string{string(make([]byte, 5_000))}}, store.PurgeState{}, reading{}, body, new(presentation))
	if w := int(p.weight()); w < 30_000+5_000 || w > 30_000+5_000+4<<10 {
		t.Errorf("weight %d of a page that holds 30,000 bytes of body and 5,000 of tags", w)
	}
}

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
	p := testPage(nil)
	c.memory.put(p, new(flight))
	c.memory.pages.CleanUp()
	before := c.memory.pages.WeightedSize()
	newCoder(c, nil).attach(p, coding.Has{}, coding.Set{httpcache.Gzip: make([]byte, 5_000, 7_000)})
	c.memory.pages.CleanUp()
	if grown := c.memory.pages.WeightedSize() - before; grown != 7_000+codingOverhead {
		t.Errorf("the weight grew by %d for a coding of 7,000 bytes", grown)
	}
}
