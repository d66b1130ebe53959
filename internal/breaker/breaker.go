// Package breaker is the circuit breaker of a store.
package breaker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

const (
	// failures is how many failures in a row, of different subjects, open a breaker. One
	// success in between resets the count.
	failures = 3

	// FirstProbe and MaxProbe bound the waits between probes, with exponential backoff.
	FirstProbe = 250 * time.Millisecond
	MaxProbe   = 10 * time.Second
	// probeTimeout bounds one probe.
	probeTimeout = 5 * time.Second
)

// A Breaker is the circuit breaker of one store. All methods are safe for concurrent use.
type Breaker struct {
	store string // in the log
	log   *slog.Logger

	isOpen   atomic.Bool
	affected atomic.Int64 // requests served without the store since the breaker opened

	mu     sync.Mutex
	failed map[string]bool // guarded by mu: subjects whose calls have failed since the last success
	since  time.Time       // guarded by mu: when the breaker opened
}

// New returns the closed breaker of a store, which is named in the log.
func New(store string, log *slog.Logger) *Breaker { return &Breaker{store: store, log: log} }

// Store returns the name of the store.
func (b *Breaker) Store() string { return b.store }

// IsOpen reports whether the store is not to be called, except by probes.
func (b *Breaker) IsOpen() bool { return b.isOpen.Load() }

// CountAffected counts a request that is served without the store.
func (b *Breaker) CountAffected() { b.affected.Add(1) }

// NoteAnswer records that the store answered. It does not close the breaker: the probe
// does.
func (b *Breaker) NoteAnswer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
}

// NoteFailure records a failed call about a subject, such as a partition key. A subject
// counts once, however often its calls fail in a row: one body that cannot be read is no
// outage. If the breaker opened, the caller starts to probe.
func (b *Breaker) NoteFailure(subject string, err error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen.Load() {
		return false
	}
	if b.failed == nil {
		b.failed = make(map[string]bool, failures)
	}
	if b.failed[subject] = true; len(b.failed) < failures {
		return false
	}
	b.since = time.Now()
	b.affected.Store(0)
	b.isOpen.Store(true)
	b.log.Error("the store does not answer, and its circuit breaker opens: pages are rendered without being stored",
		"store", b.store, "error", err)
	return true
}

// Probe calls answers, after first and then with exponential backoff, until it reports that
// the store answers. Then the breaker closes. Each call has a deadline of five seconds.
func (b *Breaker) Probe(ctx context.Context, first time.Duration, answers func(context.Context) bool, jitter func(time.Duration) time.Duration) {
	for wait, round := first, 1; ; wait, round = jitter(backoff.Exponential(FirstProbe, MaxProbe, round)), round+1 {
		if backoff.Wait(ctx, wait) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, probeTimeout)
		answered := answers(call)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if answered {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
	b.isOpen.Store(false)
	b.log.Info("the store answers, and its circuit breaker closes", "store", b.store,
		"affected", b.affected.Load(), "after", time.Since(b.since).Round(time.Millisecond))
}
