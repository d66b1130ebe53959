package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"

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
}

func (s *Store) newRequest(actions []action) *request {
	return &request{store: s, token: rand.Text(), actions: actions}
}

// send sends the request.
func (r *request) send(ctx context.Context) error {
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

// refusal reads the answer to the request; nil if it is none.
func (r *request) refusal(err error) refusal {
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok {
		return nil
	}
	why := make(refusal)
	for i, reason := range canceled.Reasons {
		if reason.Code == conditionFailed {
			why[r.actions[i].purpose] = reason
		}
	}
	return why
}

// conditionFailed is DynamoDB's code for it, among the reasons of a cancellation.
const conditionFailed = "ConditionalCheckFailed"

// of says whether the condition of an action was false.
func (r refusal) of(p purpose) bool {
	_, ok := r[p]
	return ok
}
