package isr

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// A page that this process has purged while it rendered it without the store is not kept, even
// if the render began at the instant of the purge. Package isrtest/simulator found one that was
// served from memory.
func TestUnpublishedPageOfAPurgedRenderIsNotKept(t *testing.T) {
	now := time.Now()
	k := store.Key{Text: "h/"}
	c := &Cache{now: time.Now, unpublished: newFlights(new(activity)), flights: newFlights(new(activity))}
	c.follower, c.peers = changelog.New(t.Context(), changelog.Options{Poll: -1}), fleet.NewPeers(nil)
	c.cfg.Memory = 16 << 20
	var err error
	c.node, err = newNode(c)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(purge bool) *page.Page {
		purged := make(chan struct{})
		f, _ := c.unpublished.Join(k, func() *fill.Flight { return new(fill.Flight) }, func(f *fill.Flight) {
			<-purged
			e := store.Entry{Status: 200, GeneratedAt: now, Revalidate: time.Minute, PurgeSeq: 1}
			c.node.Unpublished.Put(page.New(k, e, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View)), &f.State)
		})
		if purge {
			m := store.Mark{Seq: 2, At: now.Truncate(time.Second)}
			c.learn(k, m.State(m.At))
		}
		close(purged)
		<-f.Done()
		return c.node.Unpublished.Get(k)
	}
	if keep(true) != nil {
		t.Error("a page that was purged during its render is kept")
	}
	if keep(false) == nil {
		t.Error("a page that was not purged is not kept")
	}
}
