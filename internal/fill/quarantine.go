package fill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// suspicious returns why the route rejects what was rendered; empty if it does not.
func (s *Fill) suspicious(rec store.Record, got render.Rendering) string {
	var current *store.Entry
	if s.servableOnError(rec) {
		current = rec.Entry
	}
	ctx := s.e.Closing
	if s.held != nil {
		ctx = s.held.ctx
	}
	return s.Policy.Reject.Why(got.Response, current, func() ([]byte, error) { return s.e.Reader.Read(ctx, s.Key, current) })
}

// reject quarantines a render whose result is suspicious: it counts as a failure. If we crash
// before the back-off, the lease expires, and the page is rendered again.
func (s *Fill) reject() step {
	next := s.made.entry
	if s.rec.Entry != nil || !isNegative(next.Status) { // invented URLs leave no rows
		if err := s.quarantine(s.held.ctx, s.held.lease, next, s.made.body, s.rejected); err != nil {
			s.e.Complaints.Log("failed to keep a rejected generation", "key", s.Key.String(), "error", err)
		}
	}
	s.e.Log.Warn("rejected a generation; the current one stays", "key", s.Key.String(), "reason", s.rejected,
		"status", next.Status, "bytes", next.Length, "generation", next.GenerationID)
	s.got = rejection(s.rejected)
	return stepFail
}

// rejection is what a render counts as whose result is suspicious.
func rejection(why string) render.Rendering {
	return render.Rendering{Failure: fmt.Errorf("%w: %s", ErrRejected, why)}
}

// FailureDetail is the reason in Cache-Status for a render that has failed.
func FailureDetail(cause error) string {
	if errors.Is(cause, ErrRejected) {
		return page.DetailRejected
	}
	return DetailFailed
}

// A rejected generation is kept in quarantine, one for each page: a row of the page's
// partition, and its body. The row protects the body from garbage collection. It is written
// under the lease under which the page was rendered, and accepted under a lease too:
//
//	render ──► rejected: write the body ──► put QUARANTINE (if LOCK is ours) ──► back off
//	accept ──► break the back-off, acquire LOCK ──► read META and QUARANTINE
//	       ──► publish META and delete LOCK, with a reload in the log ──► delete QUARANTINE
//
// A crash leaves a body that no row refers to, or a row of a generation that is current,
// until it expires.

const (
	// quarantineLife is how long a rejected generation is kept.
	quarantineLife = 7 * 24 * time.Hour
	// quarantineAgain is how old the row must be to be written again for the same content:
	// a page may be rendered, and rejected, every half a minute.
	quarantineAgain = 24 * time.Hour
)

// quarantine keeps a rejected generation, which replaces an earlier one.
func (s *Fill) quarantine(ctx context.Context, lease store.Lease, e store.Entry, body []byte, why string) error {
	now := s.e.Now()
	earlier, err := s.e.Meta.Quarantined(ctx, s.pk)
	if err == nil && generations.SameContent(&earlier.Entry, &e) && now.Sub(earlier.RejectedAt) < quarantineAgain {
		return nil
	}
	if err := s.e.Bodies.Put(ctx, e.BodyKey, body); err != nil {
		return fmt.Errorf("storing the body of %s: %w", s.Key, err)
	}
	e.Expires = now.Add(quarantineLife)
	return s.e.Meta.Quarantine(ctx, lease, store.Quarantined{PK: s.pk, Entry: e, Tenant: s.Key.Tenant, Reason: why, RejectedAt: now, Keep: s.Policy.History})
}
