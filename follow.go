package isr

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// The log tells a process what others have changed (see package changelog): marks are applied, and
// pages are dropped from memory.
//
// A change and its log row are one transaction, which other reads may see in part for a
// moment after they have seen SEQ or the row. So the marks of the newest rows are added to
// those that were read, and pages that a row names are read in a transaction for a while
// (see package nodecache): what is read after SEQ includes all changes up to SEQ.

// follow starts to read the log, unless Config.Poll is negative.
func (c *Cache) follow() {
	c.follower = changelog.New(c.ctx, changelog.Options{
		Log:  c.meta,
		Poll: c.cfg.Poll, LogLife: c.cfg.LogLife, Retention: c.cfg.Retention, StoreTimeout: c.cfg.StoreTimeout, MaxBlind: c.cfg.MaxBlind,
		Apply: c.applyChange, Applied: c.changeApplied, Reset: c.resetToLog, Polled: c.notePoll,
		Now: c.now, Below: c.below, Logger: c.log,
	})
	c.presence = newMembers(c)
	if c.cfg.Poll < 0 {
		if c.cfg.Build == "" {
			c.follower.Skip()
			return
		}
		c.background.Go(func() { c.awaitBuild(c.ctx) })
		return
	}
	c.background.Go(func() { c.follower.Run(c.ctx) })
	if c.presence != nil {
		c.background.Go(func() { c.presence.Run(c.ctx) })
	}
}

// applyChange makes a change of the log take effect. The order matters: a fill that knows a mark
// also knows its sequence, and a process that has reached a sequence knows its marks.
func (c *Cache) applyChange(change store.Change) {
	c.node.Marks.Apply(c.now(), change.Marks...)
	c.node.Invalidate(change.Reload...)
}

// changeApplied is called once a change has taken effect; own: this process has made it, or a later
// one.
func (c *Cache) changeApplied(change store.Change, own bool, nodes int64) {
	if !own {
		c.noteApplied(change)
	}
	c.deliverFor(change, nodes)
	if change.Confirm {
		c.presence.Hurry()
	}
}

// resetToLog reads all marks, and drops all pages that were read before. A dropped page is read
// again when it is requested next, and its body is not fetched if it is the same.
func (c *Cache) resetToLog(ctx context.Context, recent []store.Change, keep int64) error {
	if err := c.node.Marks.Load(ctx, c.meta, recent, keep, c.now); err != nil {
		return fmt.Errorf("reading the purge marks: %w", err)
	}
	c.noteChanged(recent)
	if err := c.readBuild(ctx); err != nil {
		return err
	}
	c.node.Flush(time.Now())
	select {
	case <-c.follower.Begun():
		c.flights.Retire()
	default: // no flight has read anything yet
	}
	return nil
}

// noteChanged records the pages that changed lately, so that what is read of them from now on
// includes these changes.
func (c *Cache) noteChanged(recent []store.Change) {
	for _, change := range recent {
		if change.Malformed != nil {
			c.node.AllChanged()
		}
		for _, k := range change.Reload {
			c.node.Changed(k)
		}
	}
}

// PollInterval returns the longest interval at which this node reads the log: Config.Poll,
// or longer in a large fleet (see Config.Node). Zero means never.
func (c *Cache) PollInterval() time.Duration {
	if c.cfg.Poll < 0 {
		return 0
	}
	return c.follower.Every()
}

// StalenessBound returns how long this node serves pages from memory without reading the
// log: max(4*PollInterval, 2s), so it grows with the fleet; see Config.Poll. Zero means
// that there is no bound, because it does not read the log. It is safe for concurrent
// use.
func (c *Cache) StalenessBound() time.Duration { return c.follower.Bound() }

// late reports whether the node must poll before it serves p from memory; or, if p is
// nil, before it serves any page. It is on the hit path.
func (c *Cache) late(p *page.Page, now time.Time) bool {
	if p == nil {
		return c.follower.Late(now)
	}
	return c.follower.LateFor(p.Read.AsOf, now)
}

// A Downstream delivers purges to the caches in front of this one, such as a CDN. A
// [*downstream.Worker] is one. It must be safe for concurrent use.
//
// [downstream.Worker]: https://pkg.go.dev/github.com/facetheory/isr/downstream#Worker
type Downstream interface {
	// Destinations are the names of the caches: at most [store.MaxDestinations]. They may
	// change; a change is delivered to those at its time.
	Destinations() []string
	// Wake is called after a change that is to be delivered was committed, by this process
	// or another one. It must not block.
	Wake()
}

// destinations returns the names of the downstream caches.
func (c *Cache) destinations() []string {
	if c.cfg.Downstream == nil {
		return nil
	}
	return c.cfg.Downstream.Destinations()
}

// deliver wakes the delivery to downstream caches after a change. If we crash before, the
// jobs, which were committed with the change, are found by the next poll of the outbox.
func (c *Cache) deliver() {
	if c.cfg.Downstream != nil {
		c.cfg.Downstream.Wake()
	}
}

// wakingNodes is how many processes of a fleet wake their delivery, on average.
const wakingNodes = 4

// deliverFor wakes the delivery after a change whose writer wrote no jobs, such as a client
// in another language. In a fleet of many nodes only some do: any of them enqueues the change
// for all, and among many one soon reads the outbox anyway.
func (c *Cache) deliverFor(change store.Change, nodes int64) {
	undelivered := func(destination string) bool { return len(change.Undelivered(destination)) > 0 }
	if slices.ContainsFunc(c.destinations(), undelivered) && c.below(uint64(max(nodes, 1))) < wakingNodes {
		c.cfg.Downstream.Wake()
	}
}
