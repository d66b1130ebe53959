package isr

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// Stale pages can be regenerated outside of the process that serves them, where processes
// freeze after a response, or should spend nothing on renders:
//
//	a search finds the page stale, and no lease on it
//	  -> sent before, a short while ago: nothing; the page is looked for again in a second
//	  -> else: Config.Queue.Send, bounded in time
//	       ok     -> the search ends with the stale page
//	       failed -> it renders the page, or, in a process that freezes, ends with the stale page
//
// A page for which a request waits is rendered by the search: a missing one, one that a receipt
// demands, and a stale one under the policy Wait.

// A Queue takes over the regeneration of stale pages. Workers execute what it has, by
// [Cache.Regenerate] with [WithUnlessFresh].
type Queue interface {
	// Send returns nil once the queue has the request, so that it survives this process. It
	// returns soon after ctx is done. It must be safe for concurrent use.
	Send(ctx context.Context, r StalePage) error
}

// A StalePage is a request for the regeneration of a page.
type StalePage struct {
	Key store.Key
	// Generation is that of the page that was found stale; empty if its writer gave none.
	Generation string
	// Fence is the version of its entry: a page that was renewed keeps its generation.
	Fence int64
	// PurgeSeq is the sequence of the newest purge that covers it, 0 for none.
	PurgeSeq int64
	// Reason is "stale", "purge" or "early": it is fresh, and expires soon.
	Reason string
	// Failures is how many renders of it have failed in a row, in the whole fleet, and Attempt
	// counts the requests that this process has sent for the same version and purge, from 1
	// on. Requests that are equal in all but Reason ask for the same.
	Failures, Attempt int
}

const (
	// sendTime bounds one Send.
	sendTime = 2 * time.Second
	// firstResend is after how long a page that is still stale is sent again; later pauses grow
	// to maxResend. The queue is durable, so that this is only for requests that it has given up.
	firstResend, maxResend = time.Minute, 15 * time.Minute
	// maxSent bounds the pages that this process remembers as sent.
	maxSent = 16_384
	// maxSending bounds concurrent sends.
	maxSending = 256
	// After queueFailures failed sends in a row, the circuit breaker opens for queuePause.
	queueFailures = 3
	queuePause    = 5 * time.Second
)

var (
	errManySent  = errors.New("too many pages wait for the queue")
	errQueueSlow = errors.New("the queue did not answer in time")
)

// A sender is what a cache has sent to its queue. Its methods are safe for concurrent use.
type sender struct {
	c       *Cache
	queue   Queue
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	turns   chan struct{} // has an element for each send in progress

	mu   sync.Mutex
	sent map[store.Key]sentPage // guarded by mu; at most maxSent
}

// A sentPage is the last request for a page.
type sentPage struct {
	generation string
	fence, seq int64
	attempt    int
	until      time.Time // by the monotonic clock: when it may be sent again
}

// newSender returns the sender of a cache; nil without a queue.
func newSender(c *Cache) *sender {
	if c.cfg.Queue == nil {
		return nil
	}
	return &sender{c: c, queue: c.cfg.Queue, turns: make(chan struct{}, maxSending), sent: make(map[store.Key]sentPage), breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     queuePause,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= queueFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				c.log.Error("the queue does not take stale pages, and its circuit breaker opens", "for", queuePause)
			case gobreaker.StateClosed:
				c.log.Info("the queue takes stale pages again, and its circuit breaker closes")
			case gobreaker.StateHalfOpen:
			}
		},
	})}
}

// delegates reports whether the search leaves the render to the queue: no request waits for it.
func (s *search) delegates() bool { return s.c.sender != nil && s.background() }

// delegate leaves the render to the queue, and ends the search. Nil: the search renders.
func (s *search) delegate(ctx context.Context, rec store.Record) outcome {
	err := s.c.sender.send(ctx, s.stalePage(rec))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return failure{cause: context.Cause(ctx), detail: detailClosing}
	default:
		s.c.complaints.log("failed to send a stale page to the queue", "key", s.key.String(), "error", err)
		if !s.c.cfg.Freezes {
			return nil
		}
	}
	return s.postponed(ctx, rec, s.c.jitter(searchPause), nil, "")
}

// stalePage returns the request for the page of the search.
func (s *search) stalePage(rec store.Record) StalePage {
	p := StalePage{Key: s.key, Generation: rec.Entry.GenerationID, Fence: rec.Entry.Version, Reason: s.trigger(rec)}
	if purges := s.purges(rec); rec.Entry.CoveredBy(purges) {
		p.PurgeSeq = max(purges.Seq, purges.HardSeq)
	}
	if rec.Lock != nil {
		p.Failures = rec.Lock.Failures
	}
	return p
}

// send sends a request, unless the same one was sent lately.
func (d *sender) send(ctx context.Context, p StalePage) error {
	var err error
	if p.Attempt, err = d.begin(p); err != nil || p.Attempt == 0 {
		d.note(err, "pending")
		return err
	}
	settle, err := d.breaker.Allow()
	if err == nil {
		err = d.sendNow(ctx, p)
		settle(err)
	}
	if err != nil {
		d.forget(p.Key)
	}
	d.note(err, "sent")
	return err
}

// sendNow sends a request, within sendTime.
func (d *sender) sendNow(ctx context.Context, p StalePage) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, errQueueSlow)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
		return d.queue.Send(ctx, p)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// note tells the observer of a send: an error, or else result.
func (d *sender) note(err error, result string) {
	if err != nil {
		result = "failed"
	}
	d.c.note(Event{Kind: EventQueue, Reason: result})
}

// begin returns which attempt a request is, and records it; 0: it was sent lately.
func (d *sender) begin(p StalePage) (attempt int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	last, found := d.sent[p.Key]
	same := found && last.generation == p.Generation && last.fence == p.Fence && last.seq == p.PurgeSeq
	switch {
	case same && now.Before(last.until):
		return 0, nil
	case !found && !d.hasRoomLocked(now):
		return 0, errManySent
	case !same:
		last = sentPage{generation: p.Generation, fence: p.Fence, seq: p.PurgeSeq}
	}
	last.until = now.Add(d.c.jitter(backoff.Exponential(firstResend, maxResend, last.attempt)))
	last.attempt++
	d.sent[p.Key] = last
	return last.attempt, nil
}

// hasRoomLocked reports whether another page can be remembered. Those that may be sent again make
// room.
func (d *sender) hasRoomLocked(now time.Time) bool {
	if len(d.sent) < maxSent {
		return true
	}
	maps.DeleteFunc(d.sent, func(_ store.Key, s sentPage) bool { return !now.Before(s.until) })
	return len(d.sent) < maxSent
}

// forget forgets a request that failed: it may not be in the queue. If only the reply was lost,
// the queue drops the next one as a duplicate, or a worker finds the page fresh.
func (d *sender) forget(k store.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sent, k)
}

// QueueDown reports whether [Config.Queue] has failed lately, so that it is not asked for some
// seconds: pages are then regenerated by this process, or stay stale if it freezes.
func (c *Cache) QueueDown() bool {
	return c.sender != nil && c.sender.breaker.State() == gobreaker.StateOpen
}
