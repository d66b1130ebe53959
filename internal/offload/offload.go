// Package offload hands stale pages over to a durable queue, from which other processes regenerate
// them.
//
// The problem: a process that freezes after its responses, or that should spend nothing on renders,
// finds the same stale page with every request for it. Each of these requests must be answered
// soon, the queue must get the page once, and a queue that hangs or fails must not hang visitors.
//
// The model:
//
//	Send(page) ─ the same version was sent a short while ago ──────────────────────► nil
//	           ├ too many pages are remembered, or the circuit breaker is open ────► error
//	           └ one of at most maxSending calls of Options.Send, within sendTime ─► its error; nil: sent
//
// Two pages are the same version if they have the same key, generation, fence and purge. A version
// that is still found stale is sent again after a minute, then after exponentially longer pauses:
// the queue is durable, so that this is only for requests that the queue has given up.
//
// Guarantees:
//   - Send returns within two seconds, or soon after its context is done.
//   - nil means that the queue has the page, from this call or from an earlier one.
//   - After an error the page is not remembered. If only the reply of the queue was lost, the page
//     is sent twice: the receiver must drop duplicates, or find the page fresh.
//   - Memory and concurrent calls are bounded.
package offload

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

const (
	// sendTime bounds one call of Options.Send.
	sendTime = 2 * time.Second
	// A version that is still stale is sent again after firstResend; later pauses grow to
	// maxResend.
	firstResend, maxResend = time.Minute, 15 * time.Minute
	// maxSent bounds the pages that a Sender remembers.
	maxSent = 16_384
	// maxSending bounds concurrent calls of Options.Send.
	maxSending = 256
	// After queueFailures failed calls in a row, the circuit breaker opens for queuePause.
	queueFailures = 3
	queuePause    = 5 * time.Second
)

var (
	errManySent  = errors.New("too many pages wait for the queue")
	errQueueSlow = errors.New("the queue did not answer in time")
)

// A Page is a request for the regeneration of a stale page. It has the fields of isr.StalePage,
// which documents them.
type Page struct {
	Key               store.Key
	Generation        string
	Fence             int64
	PurgeSeq          int64
	Reason            string
	Failures, Attempt int
}

// Options are what a Sender needs. All fields are required.
type Options struct {
	// Send hands a page over to the queue. It must be safe for concurrent use, and return soon
	// after ctx is done.
	Send func(ctx context.Context, p Page) error
	// Jitter returns a random duration around d.
	Jitter func(d time.Duration) time.Duration
	// Sent is told the result of each call of [Sender.Send]: "sent", "pending" if nothing was to
	// be sent, or "failed".
	Sent func(result string)
	Log  *slog.Logger
}

// A Sender remembers which pages it has sent. Its methods are safe for concurrent use.
type Sender struct {
	o       Options
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	turns   chan struct{} // has an element for each call of Options.Send in progress

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

// New returns a Sender that has sent nothing.
func New(o Options) *Sender {
	return &Sender{o: o, turns: make(chan struct{}, maxSending), sent: make(map[store.Key]sentPage), breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     queuePause,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= queueFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				o.Log.Error("the queue does not take stale pages, and its circuit breaker opens", "for", queuePause)
			case gobreaker.StateClosed:
				o.Log.Info("the queue takes stale pages again, and its circuit breaker closes")
			case gobreaker.StateHalfOpen:
			}
		},
	})}
}

// Send sends a page to the queue, unless the same version was sent lately. It sets p.Attempt.
func (d *Sender) Send(ctx context.Context, p Page) error {
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

// Down reports whether the circuit breaker of the queue is open.
func (d *Sender) Down() bool { return d.breaker.State() == gobreaker.StateOpen }

// sendNow sends a page, within sendTime.
func (d *Sender) sendNow(ctx context.Context, p Page) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, errQueueSlow)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
		return d.o.Send(ctx, p)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// note reports a result, or "failed" if there is an error.
func (d *Sender) note(err error, result string) {
	if err != nil {
		result = "failed"
	}
	d.o.Sent(result)
}

// begin records a request, and returns which attempt it is; 0 if it was sent lately.
func (d *Sender) begin(p Page) (attempt int, err error) {
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
	last.until = now.Add(d.o.Jitter(backoff.Exponential(firstResend, maxResend, last.attempt)))
	last.attempt++
	d.sent[p.Key] = last
	return last.attempt, nil
}

// hasRoomLocked reports whether another page can be remembered. Pages that may be sent again make
// room.
func (d *Sender) hasRoomLocked(now time.Time) bool {
	if len(d.sent) < maxSent {
		return true
	}
	maps.DeleteFunc(d.sent, func(_ store.Key, s sentPage) bool { return !now.Before(s.until) })
	return len(d.sent) < maxSent
}

// forget forgets a request that failed: it may not be in the queue.
func (d *Sender) forget(k store.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sent, k)
}
