package isr

import (
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// The coder does not pile up work, and none after it was shut.
func TestCoderIsBounded(t *testing.T) {
	c := new(Cache)
	d := newCoder(c, nil)
	d.workers = coders // busy ones
	p := page.New(store.Key{}, store.Entry{}, store.PurgeState{}, page.Interval{}, make([]byte, 2_800), page.NewView(page.ViewRules{Codings: coding.All()}))
	for range maxCoding + 1 {
		d.add(codingJob{p: p, wanted: coding.Only(httpcache.Gzip)})
	}
	if len(d.queue) != maxCoding {
		t.Errorf("%d jobs are queued, want %d", len(d.queue), maxCoding)
	}
	large := page.New(store.Key{}, store.Entry{}, store.PurgeState{}, page.Interval{}, make([]byte, coding.MaxBody), page.NewView(page.ViewRules{Codings: coding.All()}))
	d = newCoder(c, nil)
	d.workers = coders
	for range maxCoding {
		d.add(codingJob{p: large, wanted: coding.Only(httpcache.Gzip)})
	}
	if d.bytes > maxCodingBytes || len(d.queue) != maxCodingBytes/coding.MaxBody {
		t.Errorf("%d jobs of %d bytes are queued", len(d.queue), d.bytes)
	}
	d.shut()
	if j, ok := d.next(); ok {
		t.Errorf("after it was shut: %v", j)
	}
	d.workers = 0
	if d.add(codingJob{p: p}); len(d.queue) != 0 || d.workers != 0 {
		t.Error("after it was shut, work was added")
	}
}
