package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Publish implements [store.MetaStore], by the recipes of the reference documents:
// one transaction that updates META, if it is exactly what was read, and deletes
// LOCK, if the lease is ours and has not expired. It costs four write units if
// META has at most 1 KB. With history it also makes the generation's version
// row, and lets that of the generation before expire: four units more. For a lease
// with a request it completes that, unless it withdraws the page: two units more. If
// it ends a pin, or others are to reload the page, the log tells every node: four
// units more, and a read unit.
//
// The entry that is returned is next as a reader will find it, its times in
// whole seconds.
//
// A request without an answer is repeated unchanged, under the same client
// token, until the lease ends or ctx is done. If there is no answer even then,
// Publish settles the matter, on a context of its own of SettleTimeout: it
// deletes LOCK, after which the transaction can no longer land, and then looks
// whether it has. So a caller that cancels ctx waits for as long as that at
// worst, and is told the truth: nil if the generation was published.
func (s *Store) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	held, err := s.own(l)
	if err != nil {
		return store.Entry{}, fmt.Errorf("publish: %w", err)
	}
	if held.ended() {
		return store.Entry{}, fmt.Errorf("publish %s: %w", held.pk, store.ErrLeaseLost)
	}
	p, err := s.newPublication(held, read, next, how)
	if err == nil {
		err = p.carryOut(s.during(ctx, p.operation()))
	}
	if errors.Is(err, store.ErrLeaseLost) {
		held.end()
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("publish %s: %w", held.pk, err)
	}
	held.end()
	if !next.Withdrawn {
		held.endRequest()
	}
	// Crashing from here on leaves versions to expire at their time.
	if how.History && how.Keep > 0 {
		s.prune(ctx, held.pk, how.Keep)
	}
	return p.next, nil
}

// A publication is one call of Publish.
type publication struct {
	swap
	lease *lease
	// logged: it is a change of the log, about page. The others are of no use to
	// one that is not.
	logged bool
	page   store.Key
	seen   seenSequence // from which the next request advances
	id     string       // in the log
}

func (s *Store) newPublication(l *lease, read store.Record, next store.Entry, how store.PublishOptions) (*publication, error) {
	f, err := fenceOf(read)
	if err == nil && f.pk != l.pk {
		err = fmt.Errorf("the record was not read from this partition")
	}
	if err != nil {
		return nil, err
	}
	// Decided by what was read: if it was pinned or unpinned since, the fence
	// refuses the publish.
	pinned := read.Entry != nil && read.Entry.PinnedUntil.After(s.config.Now())
	if pinned && !how.Unpin {
		return nil, fmt.Errorf("%w until %s", store.ErrPinned, read.Entry.PinnedUntil.UTC().Format(time.RFC3339))
	}
	logged := pinned || how.Reload
	if logged {
		if err := checkPage(how.Key); err != nil {
			return nil, err
		}
	}
	w, err := s.newSwap(f, next, how.History, how.Superseded)
	if err != nil {
		return nil, err
	}
	w.newer = s.config.Guards.Monotonic
	w.replaced = how.History && how.Unchanged
	return &publication{swap: w, lease: l, logged: logged, page: how.Key, id: rand.Text()}, nil
}

// operation is what the publication is for the meter.
func (p *publication) operation() string {
	switch requested := p.lease.request() != nil && !p.next.Withdrawn; {
	case p.current != "" && requested:
		return "publish with history and request"
	case p.current != "":
		return "publish with history"
	case requested:
		return "publish with request"
	}
	return "publish"
}

// prepare reads SEQ, if the publication is in the log: nodes that have a pinned
// generation in memory would serve it for as long as the pin was to last.
func (p *publication) prepare(ctx context.Context) (err error) {
	if p.logged {
		p.seen, err = p.store.readSequence(ctx)
	}
	return err
}

// request makes a request with a client token and a moment of its own.
//
// The deletion gives up the lease and is the proof that it was held: DynamoDB
// allows one operation per item, so that there is no separate check.
func (p *publication) request() *request {
	lock, held := lockRow{location: p.store.at(p.lease.pk, skLock)}, p.lease.heldAt(p.store.config.Now())
	actions := []action{
		p.moveMeta(),
		{opLock, func(tx *tabletheory.TransactionBuilder) {
			tx.Delete(&lock, tabletheory.ConditionExpression(isHeld, held))
		}},
	}
	actions = append(actions, p.keepVersion()...)
	actions = append(actions, p.retireVersion()...)
	actions = append(actions, p.completeRequest()...)
	if p.logged {
		actions = append(actions, p.store.advance(p.seen, p.id, []logTarget{reloadOf(p.page)})...)
	}
	return p.store.newRequest(actions)
}

// keepVersion makes the version row of the generation, if there is to be one. It
// has no ttl while it is current.
func (p *publication) keepVersion() []action {
	if p.current == "" {
		return nil
	}
	row := newMetaRow(p.store.at(p.lease.pk, p.current), p.next)
	row.Expires = nil
	return []action{{opVersion, func(tx *tabletheory.TransactionBuilder) { tx.Create(row) }}}
}

// completeRequest records the generation as the result of the request that the
// lease was acquired for, if it is still to be ended. A withdrawal is no result.
func (p *publication) completeRequest() []action {
	a := p.lease.request()
	if a == nil || p.next.Withdrawn {
		return nil
	}
	r, fields := a.finished(p.store, p.lease.pk, store.RequestEnd{Result: &p.next})
	return []action{{opRequest, func(tx *tabletheory.TransactionBuilder) { tx.Update(r, fields, a.isMine()...) }}}
}

// judge says what conditions that were false mean: again, that another request may
// get through; a nil error, that an earlier one is what made them false. The rows
// that come back with them settle the common case of a lost reply at no cost: META
// is what this publication made it.
func (p *publication) judge(why refusal) (again bool, err error) {
	meta, moved := why[opMeta]
	lock, lost := why[opLock]
	switch {
	case moved && p.isOurs(meta.Item):
		return false, nil
	case moved && lost:
		return false, fmt.Errorf("%w%s, and %w", store.ErrLeaseLost, holder(lock), store.ErrMoved)
	case lost:
		return false, fmt.Errorf("%w%s", store.ErrLeaseLost, holder(lock))
	case moved && p.newer:
		return false, fmt.Errorf("%w%s", store.ErrMoved, notNewer(meta.Item, p.next.GeneratedAt))
	case moved:
		return false, store.ErrMoved
	case why.of(opRequest):
		// Whoever took the request over has taken the lease as well, or will: what
		// was rendered for it is not to be published.
		return false, fmt.Errorf("%w: its request was taken over, or is ended", store.ErrLeaseLost)
	case why.of(opVersion):
		return false, fmt.Errorf("there is a version %s already: the id of a generation is used once", p.next.GenerationID)
	}
	if why.of(opSuperseded) {
		p.forget() // it is gone
	}
	return true, nil
}

func (p *publication) isOurs(meta row) bool {
	return meta.child(attrISR).text(attrGenerationID) == p.next.GenerationID
}
