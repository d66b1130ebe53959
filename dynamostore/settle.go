package dynamostore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// carryOut sends a publication until it has an answer. Without one the request is
// repeated as it is, under its token; after a definite cancellation there is a
// new one.
//
// What a publication demands does not come back once it is false: a version of
// META, a lease token, a sequence. So a request that was refused can never happen
// later.
func (p *publication) carryOut(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, nothing needs to be settled
	}
	s := p.store
	var sent []*request
	again := true // as a new request
	for attempt := 1; ; attempt++ {
		if again {
			if err := p.prepare(ctx); err != nil && len(sent) == 0 {
				return err
			} else if err != nil {
				return p.settle(ctx, sent, err)
			}
			sent = append(sent, p.request())
		}
		latest := sent[len(sent)-1]
		err := s.call(ctx, latest.send)
		outcome := tabletheory.OutcomeOf(err)
		switch outcome {
		case tabletheory.Applied:
			// Crashing here loses nothing: all rows are as they should be.
			return nil
		case tabletheory.ConditionFailed:
			if again, answer := p.refused(ctx, sent, err, attempt == 1); !again {
				return answer
			}
		case tabletheory.Refused:
			if attempt == 1 {
				return err
			}
			return p.settle(ctx, sent, err)
		case tabletheory.Cancelled, tabletheory.Unknown:
		}
		again = outcome != tabletheory.Unknown
		if !s.pause(ctx, attempt) || !p.lease.running() || !again && latest.expired() {
			return p.settle(ctx, sent, err)
		}
	}
}

// refused is the answer to a publication whose conditions were false: nil if that
// is so because it had already been carried out. first says that nothing was sent
// before.
func (p *publication) refused(ctx context.Context, sent []*request, err error, first bool) (again bool, answer error) {
	why := sent[len(sent)-1].refusal(err)
	if len(why) == 0 {
		return false, err
	}
	again, answer = p.judge(why)
	if again || answer == nil || first {
		return again, answer
	}
	// An earlier request may be what made the conditions false. The rows are asked,
	// whether the caller is still there or not.
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	landed, err := p.landed(ctx, sent)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w; looking what became of it: %w", store.ErrUnknownOutcome, answer, err)
	case landed:
		return false, nil
	}
	return false, answer
}

// settle finds out what became of requests that were not answered, whether the
// caller is still there or not: they are made impossible, and then the rows tell
// whether one of them had happened.
//
// If we crash before that, the transaction lands whole or not at all.
func (p *publication) settle(ctx context.Context, sent []*request, cause error) error {
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	landed := false
	answer, err := p.preclude(ctx, cause)
	if err == nil {
		landed, err = p.landed(ctx, sent)
	}
	p.store.config.Logger.Warn("isr: settled an unanswered write",
		slog.String("write", "publish"), slog.String("pk", p.lease.pk), slog.String("generation", p.next.GenerationID),
		slog.Bool("landed", landed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; settling it: %w", store.ErrUnknownOutcome, cause, err)
	case landed:
		return nil
	}
	return answer
}

// preclude deletes LOCK, if it carries our token, until that is answered. From
// then on no request of ours can land: each demands the token. It returns what to
// tell the caller, made of cause, if none has. If we crash before that, the lease
// expires.
func (p *publication) preclude(ctx context.Context, cause error) (answer, err error) {
	gone, err := p.store.drop(ctx, p.lease)
	if err != nil {
		return nil, err
	}
	p.lease.end()
	if gone {
		return fmt.Errorf("%w: %w", store.ErrLeaseLost, cause), nil
	}
	return cause, nil // it was given back
}

// landed looks for our generation on META. It is asked once no request can happen
// any more.
func (p *publication) landed(ctx context.Context, sent []*request) (bool, error) {
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
	if p.current != "" {
		// The version row is ours, and written with META.
		version, err := p.store.readRow(ctx, false, p.lease.pk, p.current)
		if err != nil || version != nil {
			return version != nil, err
		}
	}
	return p.remembered(ctx, sent)
}

// remembered asks DynamoDB, which remembers what it did under our client tokens:
// another writer has replaced META since, after us or instead of us. Repeating a
// request cannot do harm now: it is answered from memory, or fails its conditions.
func (p *publication) remembered(ctx context.Context, sent []*request) (bool, error) {
	for _, request := range sent {
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
