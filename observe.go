package isr

import (
	"context"
	"time"

	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/store"
)

// An Observer is told of the work of a cache, for metrics and traces. All methods must be fast,
// must not block, must not call the cache, and must be safe for concurrent use. They are not
// called on the way of a fresh hit in memory.
type Observer interface {
	// Begin is called before an operation, and the function that it returns once after it.
	// The operation uses the returned context, which must be derived from ctx: what it
	// carries reaches the calls of the operation, and the renderer.
	Begin(ctx context.Context, op Operation) (context.Context, func(Result))
	// Join is called when a request joins a flight that another request has begun, and waits
	// for it: work is the context of an OperationFlight, and request the context of the request.
	Join(work, request context.Context)
	// Note is called for what happens in a moment.
	Note(Event)
}

// An Operation is work that takes time.
type Operation struct {
	// Kind is what is done.
	Kind OperationKind
	// Name is the method of a store, such as "read", for OperationTable and OperationBodies.
	Name string
	// Route and Key are the page's; zero for an operation that concerns no page.
	Route string
	Key   store.Key
	// Trigger is why a page is rendered: "miss", "stale", "early", "command", "purge" or
	// "unstored" (for visitors who do not wait for the store); for OperationRender alone.
	Trigger string
	// Cause is the context of the request that caused the operation; nil if no request did. It is
	// not the operation's own context: the operation goes on if the visitor goes away.
	Cause context.Context
}

// An OperationKind is a kind of [Operation].
type OperationKind string

// The kinds of operations.
const (
	OperationFlight OperationKind = "flight" // finding or rendering a page, once for all requests that wait for it
	OperationRender OperationKind = "render" // rendering a page, from the call of the renderer until it is published or not
	OperationQueue  OperationKind = "queue"  // waiting for a turn at the origin, if there is none free
	OperationLease  OperationKind = "lease"  // waiting while another process holds the lease
	OperationTable  OperationKind = "table"  // a call of the metadata store
	OperationBodies OperationKind = "bodies" // a call of the body store
)

// A Result is how an operation ended.
type Result struct {
	// Outcome is a word of a closed set. For a render: "published", "unchanged" (validated,
	// and published again), "unpublished", "refused", "rejected", "failed", "lost" (the
	// lease, or another writer was faster) or "canceled". For a flight: "stored" (found in
	// the store or in memory), "rendered", "unpublished", "refused" or "failed". For a queue
	// and a lease: "ok", "timeout", "refused" (by the origin's circuit breaker) or
	// "canceled". For a store: see OutcomeOf.
	Outcome string
	// Reason says why a render was not published, or a flight failed: the detail of
	// Cache-Status. For a failed render it is "status" (an error response), "timeout",
	// "unreachable", "truncated", "empty", "not-modified" (an unexpected 304), "panic" or
	// "error".
	Reason string
	// Took is how long the renderer took, without what follows; for a render alone.
	Took time.Duration
	// Status is the status that the renderer has sent; 0 if it sent none.
	Status int
	// Bytes is the size of the body that was rendered, read or written.
	Bytes int64
	// Err is the error; nil if there is none.
	Err error
}

// An Event is something that happens in a moment.
type Event struct {
	// Kind is what has happened.
	Kind EventKind
	// Reason says more, by a word of a closed set that Kind determines.
	Reason string
	// Target is the kind of the first target of a purge, such as "tag"; for EventPurge alone.
	Target string
	// Took is a duration that Kind determines; zero if the kind has none.
	Took time.Duration
	// Bytes is the size of what was evicted, or collected.
	Bytes int64
}

// An EventKind is a kind of [Event].
type EventKind string

// The kinds of events, and their reasons.
const (
	// EventLease: "acquired", "taken-over" (from a process that let it expire), "busy"
	// (another process holds it), "lost" or "released" (also by a publish, or a back-off).
	EventLease EventKind = "lease"
	// EventPeer: "ended" (the holder of a lease has said that it has ended its work), "silent" (it
	// was asked, and did not).
	EventPeer EventKind = "peer"
	// EventQueue: a stale page was left to Config.Queue: "sent", "pending" (it was sent a short
	// while ago), or "failed".
	EventQueue EventKind = "queue"
	// EventPeerBody: a peer was asked for a stored body: "hit" (it sent it), "absent" (it does not have
	// it), "busy" (it sends too many), "slow" (the store was asked as well, whichever was first), "failed"
	// (it did not answer) or "wrong" (it sent something else). Bytes is what it sent.
	EventPeerBody EventKind = "peer-body"
	// EventPeerServed: this process was asked for a stored body: "sent" or "absent".
	EventPeerServed EventKind = "peer-served"
	// EventNotStored: a response was rendered and is not stored; the detail of Cache-Status.
	EventNotStored EventKind = "not-stored"
	// EventEvicted: a page in memory was evicted to make room ("size"), or is no longer
	// served because it was purged by its key, rolled back, pinned or changed ("reloaded").
	EventEvicted EventKind = "evicted"
	// EventPurge: a purge by this process was committed: "soft" or "hard".
	EventPurge EventKind = "purge"
	// EventApplied: a change by another process has taken effect in this one; also a rollback
	// or a pin by this one. Took is since it was committed, by the clocks of both processes,
	// and up to a second too long; zero for changes of single pages, whose rows have no time.
	EventApplied EventKind = "applied"
	// EventPoll: the log was read: "ok" or "error", and how long it took.
	EventPoll EventKind = "poll"
	// EventCollected: garbage of so many bytes was deleted.
	EventCollected EventKind = "collected"
)

// OutcomeOf returns the outcome of a store call whose caller has ctx: "ok", "held" (the lease is
// held, or the page in back-off), "moved" (another writer was faster), "lost" (the lease),
// "denied", "throttled", "not-found", "refused" (the state of the page, or the input, forbids
// it), "timeout", "canceled" or "error". A store that retries answers what the last attempt did.
func OutcomeOf(ctx context.Context, err error) string {
	return guard.OutcomeOf(ctx, err)
}

// calls returns a function that begins operations of a kind; nil if o is nil.
func calls(o Observer, kind OperationKind) guard.Begin {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, name string) (context.Context, func(int64, error)) {
		ctx, end := o.Begin(ctx, Operation{Kind: kind, Name: name})
		return ctx, func(bytes int64, err error) {
			end(Result{Outcome: OutcomeOf(ctx, err), Bytes: bytes, Err: err})
		}
	}
}

// note tells the observer of an event.
func (c *Cache) note(e Event) {
	if c.cfg.Observer != nil {
		c.cfg.Observer.Note(e)
	}
}

// notePurge tells the observer of a purge by this process.
func (c *Cache) notePurge(p store.Purge) {
	e := Event{Kind: EventPurge, Reason: "soft", Target: string(p.Targets[0].Kind)}
	if p.Hard {
		e.Reason = "hard"
	}
	c.note(e)
}

// notePoll tells the observer of a poll of the log.
func (c *Cache) notePoll(took time.Duration, err error) {
	e := Event{Kind: EventPoll, Reason: "ok", Took: took}
	if err != nil {
		e.Reason = "error"
	}
	c.note(e)
}

// noteApplied tells the observer of a change by another process that has taken effect in this one.
// Only marks have the time of the change, in whole seconds.
func (c *Cache) noteApplied(change store.Change) {
	e := Event{Kind: EventApplied}
	for _, m := range change.Marks {
		e.Took = max(e.Took, c.now().Sub(m.At), 1)
	}
	c.note(e)
}
