package isr

import (
	"slices"

	"github.com/facetheory/isr/store"
)

// A Downstream delivers purges to the caches in front of this one, such as a CDN. A
// [*downstream.Worker] is one. It must be safe for concurrent use.
//
// [downstream.Worker]: https://pkg.go.dev/github.com/facetheory/isr/downstream#Worker
type Downstream interface {
	// Destinations are the names of the caches: at most [store.MaxDestinations]. They are
	// constant.
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
