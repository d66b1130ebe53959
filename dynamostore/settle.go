package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/tabletheory"
)

// refusal is the answer to a publish whose conditions were false: nil if that is
// so because it had already been carried out. first says that no other request
// was sent before.
func (p *publication) refusal(ctx context.Context, err error, first bool) error {
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok {
		return err
	}
	landed, answer := p.explain(canceled)
	if first || landed {
		return answer
	}
	// An earlier request may be what moved META and deleted LOCK.
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	landed, err = p.landed(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; looking what became of it: %w", isr.ErrUnknownOutcome, answer, err)
	case landed:
		return nil
	}
	return answer
}

// explain names the conditions that were false, by operation. The rows that come
// back with them settle the common case of a lost reply at no cost: landed says
// that META is what this publication made it.
func (p *publication) explain(canceled *tabletheory.TransactionError) (landed bool, err error) {
	meta, lock := canceled.Reasons[opMeta], canceled.Reasons[opLock]
	moved, lost := meta.Code == conditionFailed, lock.Code == conditionFailed
	switch {
	case moved && p.isOurs(meta.Item):
		return true, nil
	case moved && lost:
		return false, fmt.Errorf("%w%s, and %w", isr.ErrLeaseLost, holder(lock), isr.ErrMoved)
	case lost:
		return false, fmt.Errorf("%w%s", isr.ErrLeaseLost, holder(lock))
	case moved:
		return false, isr.ErrMoved
	}
	return false, canceled
}

// conditionFailed is DynamoDB's code for it, among the reasons of a cancellation.
const conditionFailed = "ConditionalCheckFailed"

func (p *publication) isOurs(meta row) bool {
	return meta.child(attrISR).text(attrGenerationID) == p.next.GenerationID
}

// settle finds out what became of requests that were not answered, whether the
// caller is still there or not.
//
//  1. LOCK is deleted, if it carries our token, until that is answered. From
//     then on no request of ours can land: each demands the token.
//  2. META is read. Our generation there: it had landed.
//
// If we crash before 1, the lease expires and the transaction lands whole or not
// at all; after 1 it has landed or never will.
func (p *publication) settle(ctx context.Context, cause error) error {
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	gone, landed, err := false, false, error(nil)
	if gone, err = p.store.drop(ctx, p.lease); err == nil {
		landed, err = p.landed(ctx)
	}
	p.store.config.Logger.Warn("isr: settled an unanswered publish", slog.String("pk", p.lease.pk),
		slog.String("generation", p.next.GenerationID), slog.Bool("landed", landed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; settling it: %w", isr.ErrUnknownOutcome, cause, err)
	case landed:
		return nil
	case gone:
		return fmt.Errorf("%w: %w", isr.ErrLeaseLost, cause)
	}
	p.lease.end() // it was given back
	return cause
}

// landed says whether the transaction was carried out. It may be asked once no
// request of ours can land any more.
func (p *publication) landed(ctx context.Context) (bool, error) {
	meta, err := p.store.readRow(ctx, false, p.lease.pk, skMeta)
	if err != nil {
		return false, err
	}
	if p.isOurs(meta) {
		return true, nil
	}
	if v, ok := meta.version(); meta == nil || ok && v <= p.next.Version {
		return false, nil // unchanged, or another writer took our number
	}
	// Somebody wrote META since: after us, or instead of us. DynamoDB remembers
	// what it did under our client tokens, and repeating a request cannot do
	// harm now: it is answered from memory, or fails its conditions.
	for _, request := range p.sent {
		err := p.store.repeat(ctx, false, request.send)
		switch tabletheory.OutcomeOf(err) {
		case tabletheory.Applied:
			return true, nil
		case tabletheory.ConditionFailed:
		case tabletheory.Refused, tabletheory.Cancelled, tabletheory.Unknown:
			return false, err
		}
	}
	return false, nil
}
