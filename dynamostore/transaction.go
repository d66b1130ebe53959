package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/facetheory/isr/tabletheory"
)

// A purpose is what an action is there for in its transaction: it tells what it
// means if the condition of the action is false.
type purpose int

const (
	opMeta       purpose = iota // META becomes the next entry
	opLock                      // the lease ends, and was held
	opVersion                   // the generation gets a version row
	opSuperseded                // that of the generation before may be collected some day
	opRestored                  // that of the generation that returns may not
	opSequence                  // the purge sequence is one more
	opLog                       // what happened at that sequence
	opRequest                   // a request with an idempotency key was carried out
)

// An action is one write of a transaction. state states it, the very same each
// time.
type action struct {
	purpose purpose
	state   func(*tabletheory.TransactionBuilder)
}

// A request is a transaction as it is sent to DynamoDB. It is never altered, so
// that it can be repeated under its token.
type request struct {
	store *Store
	token string // the client's, of its own
	parts [][]action

	made     time.Time // on the monotonic clock
	madeWall time.Time
}

// newRequest makes a request of the actions of all parts. Within a part, purposes
// differ.
func (s *Store) newRequest(parts ...[]action) *request {
	return &request{store: s, token: rand.Text(), parts: parts, made: time.Now(), madeWall: s.config.Now()}
}

// A label identifies an action in the answer to a request.
type label struct {
	part    int
	purpose purpose
}

// tokenLife is how long a request is repeated under one ClientRequestToken:
// DynamoDB remembers tokens for ten minutes.
const tokenLife = 8 * time.Minute

// expired reports whether DynamoDB may have forgotten the request's token, so that
// a repetition could be carried out a second time. The monotonic clock stands still
// on some systems while a machine sleeps, and the wall clock may be set back: the
// larger age counts.
func (r *request) expired() bool {
	return max(time.Since(r.made), r.store.config.Now().Sub(r.madeWall)) > tokenLife
}

// send sends the request, unless its token is too old: errForgotten, which leaves
// open what became of it.
func (r *request) send(ctx context.Context) error {
	if r.expired() {
		return errForgotten
	}
	ctx = context.WithValue(ctx, requestKey{}, r)
	return r.store.db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
		for i, part := range r.parts {
			for _, a := range part {
				a.state(tx)
				tx.Label(label{i, a.purpose})
			}
		}
		tx.ClientRequestToken(r.token)
		return nil
	})
}

// A refusal is why a transaction was cancelled: the reasons of the actions whose
// conditions were false.
type refusal map[purpose]tabletheory.Reason

// refusal reads the answer to a request of one part; it is empty if the answer is
// not a cancellation.
func (r *request) refusal(err error) refusal { return r.refusalOf(err, 0) }

// refusalOf is refusal for one of several parts.
func (r *request) refusalOf(err error, part int) refusal {
	why := make(refusal)
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok {
		return why
	}
	for _, a := range r.parts[part] {
		if reason, ok := canceled.Reason(label{part, a.purpose}); ok && reason.ConditionFailed() {
			why[a.purpose] = reason
		}
	}
	return why
}

// passing reports whether an action of a part was cancelled for something that
// passes, such as a conflict with another transaction.
func (r *request) passing(err error, part int) bool {
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	return ok && slices.ContainsFunc(r.parts[part], func(a action) bool {
		reason, ok := canceled.Reason(label{part, a.purpose})
		return ok && reason.Failed()
	})
}

// of says whether the condition of an action was false.
func (r refusal) of(p purpose) bool {
	_, ok := r[p]
	return ok
}
