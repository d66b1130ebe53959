package generations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// Quarantined returns the generation of a page that was rejected last. Errors wrap store.ErrNotQuarantined if there is
// none, or are the table's.
func (op *Operator) Quarantined(ctx context.Context, k store.Key) (store.Quarantined, error) {
	pk, err := op.partition(k)
	if err != nil {
		return store.Quarantined{}, err
	}
	q, err := op.o.Table.Quarantined(ctx, pk)
	if err != nil {
		return store.Quarantined{}, fmt.Errorf("reading the quarantine of %s: %w", k, err)
	}
	return q, nil
}

// QuarantinedBody is Body for the generation of a page that is in quarantine. Errors are also Quarantined's.
func (op *Operator) QuarantinedBody(ctx context.Context, k store.Key, limit int64) (store.Entry, []byte, error) {
	q, err := op.Quarantined(ctx, k)
	if err != nil {
		return store.Entry{}, nil, err
	}
	body, err := op.plainBody(ctx, &q.Entry, limit)
	return q.Entry, body, err
}

// DropQuarantined deletes the generation of a page that is in quarantine, if there is one.
func (op *Operator) DropQuarantined(ctx context.Context, k store.Key) error {
	q, err := op.Quarantined(ctx, k)
	if errors.Is(err, store.ErrNotQuarantined) {
		return nil
	}
	if err != nil {
		return err
	}
	return op.o.Table.DropQuarantined(ctx, q.PK, q.Entry.GenerationID)
}

// Accept publishes the generation of a page that is in quarantine, and returns the new current entry. generation is its
// id, or a prefix of it; empty: whichever is there.
//
// Errors wrap store.ErrNotQuarantined: there is no such generation; store.ErrMoved: a newer one was published since it
// was rendered; store.ErrPurged; store.ErrPinned; bodies.ErrMissing; or they are a [*store.HeldError] while the page is
// being regenerated, or the table's.
func (op *Operator) Accept(ctx context.Context, k store.Key, generation string) (store.Entry, error) {
	e, err := op.accept(ctx, k, generation)
	if err != nil {
		return store.Entry{}, fmt.Errorf("accepting the quarantined generation of %s: %w", k, err)
	}
	op.o.Log.Info("accepted a quarantined generation", "key", k.String(), "generation", e.GenerationID)
	return e, nil
}

// releaseTime bounds giving up a lease after the context of the caller has ended.
const releaseTime = 5 * time.Second

func (op *Operator) accept(ctx context.Context, k store.Key, generation string) (e store.Entry, err error) {
	pk, err := op.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	if _, err := op.o.Table.Quarantined(ctx, pk); err != nil {
		return store.Entry{}, err // before the back-off is broken
	}
	lease, err := op.acquireNow(ctx, pk)
	if err != nil {
		return store.Entry{}, err
	}
	release := op.o.Hold(k)
	defer func() { release(errors.Is(err, store.ErrLeaseLost)) }()
	defer op.o.Drop(k)
	e, err = op.publish(ctx, k, pk, lease, generation)
	if err != nil {
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		return store.Entry{}, errors.Join(err, op.o.Table.Release(settle, lease))
	}
	op.o.Accepted(k)
	if err := op.o.Table.DropQuarantined(ctx, pk, e.GenerationID); err != nil {
		op.o.Log.Warn("failed to delete an accepted generation from quarantine; it stays until it expires", "key", k.String(), "error", err)
	}
	return e, nil
}

// acquireNow acquires a lease, also during a back-off.
func (op *Operator) acquireNow(ctx context.Context, pk string) (store.Lease, error) {
	lease, err := op.o.Table.Acquire(ctx, pk, op.o.Lease, nil)
	var held *store.HeldError
	if !errors.As(err, &held) || !held.Lock.IsBackOff() {
		return lease, err
	}
	rec, err := op.o.Table.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	if rec.Lock != nil && rec.Lock.IsBackOff() {
		if err := op.o.Table.BreakLease(ctx, rec); err != nil && !errors.Is(err, store.ErrMoved) {
			return nil, err
		}
	}
	return op.o.Table.Acquire(ctx, pk, op.o.Lease, nil)
}

// publish publishes the generation in quarantine under the lease of its page.
func (op *Operator) publish(ctx context.Context, k store.Key, pk string, lease store.Lease, generation string) (store.Entry, error) {
	rec, err := op.o.Read(ctx, k, pk)
	if err != nil {
		return store.Entry{}, err
	}
	// Read under the lease: its body is not collected before the lease ends.
	q, err := op.o.Table.Quarantined(ctx, pk)
	if err != nil {
		return store.Entry{}, err
	}
	e := q.Entry
	if !strings.HasPrefix(e.GenerationID, generation) {
		return store.Entry{}, fmt.Errorf("%w: %q; the one there is %s", store.ErrNotQuarantined, generation, e.GenerationID)
	}
	if rec.Entry != nil && rec.Entry.GeneratedAt.After(e.GeneratedAt) {
		return store.Entry{}, fmt.Errorf("%w: generation %s was rendered later", store.ErrMoved, rec.Entry.GenerationID)
	}
	covering, err := op.o.Table.Covering(ctx, k, e.Tags)
	if err != nil {
		return store.Entry{}, err
	}
	if store.Freshness(&e, rec.Purges.Merge(covering), op.o.Now()) == store.Purged {
		return store.Entry{}, store.ErrPurged
	}
	if err := CheckBody(ctx, op.o.Bodies, &e); err != nil {
		return store.Entry{}, err
	}
	e.Expires = Expiry(e, op.o.Now(), op.o.Retention)
	if err := op.o.ListVariant(ctx, k, e.Expires); err != nil {
		return store.Entry{}, err
	}
	return op.o.Table.Publish(ctx, lease, rec, e, store.PublishOptions{
		History: q.Keep > 0, Keep: q.Keep, Superseded: op.o.Now().Add(op.o.Retention), Reload: true, Key: k,
	})
}
