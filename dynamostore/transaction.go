package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/core"
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
	state   func(core.TransactionBuilder)
}

// A request is a transaction as it is sent to DynamoDB. It is never altered, so
// that it can be repeated under its token.
type request struct {
	store   *Store
	token   string // the client's, of its own
	actions []action

	made     time.Time // on the monotonic clock
	madeWall time.Time
}

func (s *Store) newRequest(actions []action) *request {
	return &request{store: s, token: rand.Text(), actions: actions, made: time.Now(), madeWall: s.config.Now()}
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
	return r.store.db.TransactWrite(ctx, func(tx core.TransactionBuilder) error {
		for _, a := range r.actions {
			a.state(tx)
		}
		tx.ClientRequestToken(r.token)
		return nil
	})
}

// A refusal is why a transaction was cancelled: the reasons of the actions whose
// conditions were false.
type refusal map[purpose]tabletheory.Reason

// refusal reads the answer to the request; it is empty if the answer is none.
func (r *request) refusal(err error) refusal { return r.refusalOf(err, 0, len(r.actions)) }

// refusalOf is refusal, of the actions from first until end.
func (r *request) refusalOf(err error, first, end int) refusal {
	why := make(refusal)
	for i, reason := range reasons(err, first, end) {
		if reason.Code == conditionFailed {
			why[r.actions[first+i].purpose] = reason
		}
	}
	return why
}

// passing reports whether one of the actions from first until end was cancelled for
// something that passes, such as a conflict with another transaction.
func (r *request) passing(err error, first, end int) bool {
	return slices.ContainsFunc(reasons(err, first, end), tabletheory.Reason.Failed)
}

// reasons are those of the actions from first until end; nil if the answer has none.
func reasons(err error, first, end int) []tabletheory.Reason {
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok || len(canceled.Reasons) < end {
		return nil
	}
	return canceled.Reasons[first:end]
}

// conditionFailed is DynamoDB's code for it, among the reasons of a cancellation.
const conditionFailed = "ConditionalCheckFailed"

// of says whether the condition of an action was false.
func (r refusal) of(p purpose) bool {
	_, ok := r[p]
	return ok
}
