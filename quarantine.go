package isr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

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

// quarantine keeps a rejected generation, in place of an earlier one.
func (s *search) quarantine(ctx context.Context, lease store.Lease, e store.Entry, body []byte, why string) error {
	now := s.c.now()
	earlier, err := s.c.meta.Quarantined(ctx, s.pk)
	if err == nil && sameContent(&earlier.Entry, &e) && now.Sub(earlier.RejectedAt) < quarantineAgain {
		return nil
	}
	if err := s.c.bodies.Put(ctx, e.BodyKey, body); err != nil {
		return fmt.Errorf("storing the body of %s: %w", s.key, err)
	}
	e.Expires = now.Add(quarantineLife)
	return s.c.meta.Quarantine(ctx, lease, store.Quarantined{PK: s.pk, Entry: e, Tenant: s.key.Tenant, Reason: why, RejectedAt: now, Keep: s.route.History})
}

// Quarantined returns the generation of a page that was rejected last. It is kept for a week.
// Errors wrap [store.ErrNotQuarantined] if there is none, or are those of the store.
func (c *Cache) Quarantined(ctx context.Context, k store.Key) (store.Quarantined, error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Quarantined{}, err
	}
	q, err := c.meta.Quarantined(ctx, pk)
	if err != nil {
		return store.Quarantined{}, fmt.Errorf("reading the quarantine of %s: %w", k, err)
	}
	return q, nil
}

// DiffQuarantined compares the current generation of a page with the one in quarantine, as
// Diff does. Errors are those of Quarantined, and wrap [store.ErrNoVersion] if the page has no
// current generation.
func (c *Cache) DiffQuarantined(ctx context.Context, k store.Key) (Diff, error) {
	q, err := c.Quarantined(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{To: Version{Entry: q.Entry}}
	if d.From, err = current(versions); err != nil {
		return Diff{}, fmt.Errorf("comparing the quarantined generation of %s: %w", k, err)
	}
	d.Fields = diffFields(&d.From.Entry, &d.To.Entry)
	return d, c.diffBodies(ctx, &d)
}

// AcceptQuarantined publishes the generation of a page that is in quarantine, and returns the
// new current entry. generation is its id, or a prefix of it; empty: whichever is there. It is
// as old as its render, so that it may be regenerated at once; what is rendered then is
// compared with it. Other nodes follow within a poll of the log.
//
// Errors wrap [store.ErrNotQuarantined]: there is no such generation; [store.ErrMoved]: a newer
// one was published since it was rendered; [store.ErrPurged]: it was purged hard;
// [store.ErrPinned]; [ErrNoBody]; or they are a [*store.HeldError] while the page is being
// regenerated, or those of the store.
func (c *Cache) AcceptQuarantined(ctx context.Context, k store.Key, generation string) (store.Entry, error) {
	e, err := c.accept(ctx, k, generation)
	if err != nil {
		return store.Entry{}, fmt.Errorf("accepting the quarantined generation of %s: %w", k, err)
	}
	c.log.Info("accepted a quarantined generation", "key", k.String(), "generation", e.GenerationID)
	return e, nil
}

func (c *Cache) accept(ctx context.Context, k store.Key, generation string) (store.Entry, error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	if _, err := c.meta.Quarantined(ctx, pk); err != nil {
		return store.Entry{}, err // before the back-off is broken
	}
	lease, err := c.acquireNow(ctx, pk)
	if err != nil {
		return store.Entry{}, err
	}
	defer c.reload(k)
	e, err := c.publishQuarantined(ctx, k, pk, lease, generation)
	if err != nil {
		settle, cancel := c.settling(ctx)
		defer cancel()
		return store.Entry{}, errors.Join(err, c.meta.Release(settle, lease))
	}
	c.negative.forget(k)
	c.unpublished.forget(k)
	if err := c.meta.DropQuarantined(ctx, pk, e.GenerationID); err != nil {
		c.log.Warn("failed to delete an accepted generation from quarantine; it stays until it expires", "key", k.String(), "error", err)
	}
	return e, nil
}

// acquireNow acquires a lease, also during a back-off.
func (c *Cache) acquireNow(ctx context.Context, pk string) (store.Lease, error) {
	lease, err := c.meta.Acquire(ctx, pk, c.cfg.Lease, nil)
	var held *store.HeldError
	if !errors.As(err, &held) || !held.Lock.IsBackOff() {
		return lease, err
	}
	rec, err := c.meta.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	if rec.Lock != nil && rec.Lock.IsBackOff() {
		if err := c.meta.BreakLease(ctx, rec); err != nil && !errors.Is(err, store.ErrMoved) {
			return nil, err
		}
	}
	return c.meta.Acquire(ctx, pk, c.cfg.Lease, nil)
}

func (c *Cache) publishQuarantined(ctx context.Context, k store.Key, pk string, lease store.Lease, generation string) (store.Entry, error) {
	rec, _, err := c.read(ctx, k, pk)
	if err != nil {
		return store.Entry{}, err
	}
	// Read under the lease: its body is not collected before the lease ends.
	q, err := c.meta.Quarantined(ctx, pk)
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
	covering, err := c.meta.Covering(ctx, k, e.Tags)
	if err != nil {
		return store.Entry{}, err
	}
	if store.Freshness(&e, rec.Purges.Merge(covering), c.now()) == store.Purged {
		return store.Entry{}, store.ErrPurged
	}
	if err := c.checkBody(ctx, e); err != nil {
		return store.Entry{}, err
	}
	e.Expires = expiry(e, c.now(), c.cfg.Retention)
	if err := c.listVariant(ctx, k, e.Expires); err != nil {
		return store.Entry{}, err
	}
	return c.meta.Publish(ctx, lease, rec, e, store.PublishOptions{
		History: q.Keep > 0, Keep: q.Keep, Superseded: c.now().Add(c.cfg.Retention), Reload: true, Key: k,
	})
}

// DropQuarantined deletes the generation of a page that is in quarantine. It is no error if
// there is none.
func (c *Cache) DropQuarantined(ctx context.Context, k store.Key) error {
	q, err := c.Quarantined(ctx, k)
	if errors.Is(err, store.ErrNotQuarantined) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.meta.DropQuarantined(ctx, q.PK, q.Entry.GenerationID)
}
