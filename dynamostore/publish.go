package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/core"
)

// Positions in the publish transaction, for reading its cancellation reasons.
const (
	opMeta = iota
	opLock
)

// tokenLife is how long a request is repeated under one ClientRequestToken:
// DynamoDB remembers tokens for ten minutes.
const tokenLife = 8 * time.Minute

// Publish implements [isr.MetaStore], by recipe A of the reference documents:
// one transaction that updates META, if it is exactly what was read, and deletes
// LOCK, if the lease is ours and has not expired. It costs four write units if
// META has at most 1 KB.
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
func (s *Store) Publish(ctx context.Context, l isr.Lease, read isr.Record, next isr.Entry, _ isr.Publishing) (isr.Entry, error) {
	held, err := s.own(l)
	if err != nil {
		return isr.Entry{}, fmt.Errorf("publish: %w", err)
	}
	if held.ended() {
		return isr.Entry{}, fmt.Errorf("publish %s: %w", held.pk, isr.ErrLeaseLost)
	}
	p, err := s.newPublication(held, read, next)
	if err == nil {
		err = p.run(ctx)
	}
	if errors.Is(err, isr.ErrLeaseLost) {
		held.end()
	}
	if err != nil {
		return isr.Entry{}, fmt.Errorf("publish %s: %w", held.pk, err)
	}
	held.end()
	return p.next, nil
}

// A publication is one call of Publish.
type publication struct {
	store *Store
	lease *lease
	fence fence
	next  isr.Entry
	meta  *metaRow // of next
	sent  []*request
}

// A request is a publication as it is sent to DynamoDB.
type request struct {
	*publication
	token string    // the client's, of its own
	now   time.Time // at which the lease must not have expired
}

func (s *Store) newPublication(l *lease, read isr.Record, next isr.Entry) (*publication, error) {
	f, ok := read.Fence.(fence)
	if !ok || f.pk != l.pk {
		return nil, fmt.Errorf("the record was not read from this partition")
	}
	next, err := normalize(next)
	if err != nil {
		return nil, err
	}
	next.Version = f.next(s.config.Now())
	return &publication{store: s, lease: l, fence: f, next: next, meta: newMetaRow(s.at(l.pk, skMeta), next)}, nil
}

// run sends the transaction until it has an answer.
func (p *publication) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, nothing needs to be settled
	}
	started := time.Now()
	request := p.request()
	for attempt := 1; ; attempt++ {
		err := p.store.call(ctx, request.send)
		outcome := tabletheory.OutcomeOf(err)
		switch outcome {
		case tabletheory.Applied:
			// Crashing here loses nothing: META and LOCK are as they should be.
			return nil
		case tabletheory.ConditionFailed:
			return p.refusal(ctx, err, attempt == 1)
		case tabletheory.Refused:
			if attempt == 1 {
				return err
			}
			return p.settle(ctx, err)
		case tabletheory.Cancelled, tabletheory.Unknown:
		}
		if !p.store.pause(ctx, attempt) || !p.lease.running() || time.Since(started) > tokenLife {
			return p.settle(ctx, err)
		}
		if outcome == tabletheory.Cancelled {
			request = p.request()
		}
	}
}

// request makes a request with a client token and a moment of its own.
func (p *publication) request() *request {
	r := &request{publication: p, token: rand.Text(), now: p.store.config.Now()}
	p.sent = append(p.sent, r)
	return r
}

// send sends the request, the very same each time.
//
// The update sets or removes every attribute of the reference, so that no
// generation inherits from another, and leaves those alone that we do not know.
// The deletion gives up the lease and is the proof that it was held: DynamoDB
// allows one operation per item, so that there is no separate check.
func (r *request) send(ctx context.Context) error {
	lock := lockRow{location: r.store.at(r.lease.pk, skLock)}
	return r.store.db.TransactWrite(ctx, func(tx core.TransactionBuilder) error {
		tx.Update(r.meta, nil, r.fence.condition())                                      // opMeta
		tx.Delete(&lock, tabletheory.ConditionExpression(isHeld, r.lease.heldAt(r.now))) // opLock
		tx.ClientRequestToken(r.token)
		return nil
	})
}
