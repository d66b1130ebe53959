package encoder

import (
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// The queue is bounded by pages and bytes, and takes nothing once the encoder was shut.
func TestQueueIsBounded(t *testing.T) {
	en := New(t.Context(), Options{})
	en.workers = maxWorkers // busy ones
	p := page.New(store.Key{}, store.Entry{}, store.PurgeState{}, page.Interval{}, make([]byte, 2_800), page.NewView(page.ViewRules{}))
	for range maxQueue + 1 {
		en.add(job{p: p, wanted: coding.Only(httpcache.Gzip)})
	}
	if len(en.queue) != maxQueue {
		t.Errorf("%d jobs are queued, want %d", len(en.queue), maxQueue)
	}
	large := page.New(store.Key{}, store.Entry{}, store.PurgeState{}, page.Interval{}, make([]byte, coding.MaxBody), page.NewView(page.ViewRules{}))
	en = New(t.Context(), Options{})
	en.workers = maxWorkers
	for range maxQueue {
		en.add(job{p: large, wanted: coding.Only(httpcache.Gzip)})
	}
	if en.bytes > maxQueueBytes || len(en.queue) != maxQueueBytes/coding.MaxBody {
		t.Errorf("%d jobs of %d bytes are queued", len(en.queue), en.bytes)
	}
	en.Shut()
	if j, ok := en.next(); ok {
		t.Errorf("after Shut, next returned %v", j)
	}
	en.workers = 0
	if en.add(job{p: p}); len(en.queue) != 0 || en.workers != 0 {
		t.Error("after Shut, work was added")
	}
}
