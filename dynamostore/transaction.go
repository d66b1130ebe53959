package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/facetheory/isr/tabletheory"
)

// A purpose is the role of an action in its transaction. It decides what a failed
// condition of the action means.
type purpose int

const (
	onMeta       purpose = iota // META becomes the next entry
	onLock                      // the lease is taken, extended or ended
	onVersion                   // the generation gets a version row
	onSuperseded                // the version row of the previous generation may expire, or goes
	onRestored                  // the version row of the generation that returns must not expire
	onSequence                  // the purge sequence is incremented
	onLog                       // the log row of that sequence
	onRequest                   // the request record of an idempotency key
	onBuild                     // the current build
	onQuarantine                // a rejected generation
	onJob                       // a delivery to a downstream cache; one for each destination
	onCursor                    // the cursor of a destination moves
	onPurged                    // a PURGE or MARK# row; one for each item that a transaction purges
)

// An action is one write of a transaction. state adds it to the builder, identically
// each time.
type action struct {
	purpose purpose
	item    itemKey // if a part has several actions of the purpose
	state   func(*tabletheory.TransactionBuilder)
}

// put replaces an item.
func put(p purpose, item any, conditions ...tabletheory.Precondition) action {
	return action{purpose: p, state: func(tx *tabletheory.TransactionBuilder) { tx.Put(item, conditions...) }}
}

// create puts an item that does not exist.
func create(p purpose, item any) action {
	return action{purpose: p, state: func(tx *tabletheory.TransactionBuilder) { tx.Create(item) }}
}

// update sets or removes fields of an item, all of its model if fields is nil, and
// leaves other attributes unchanged.
func update(p purpose, item any, fields []string, conditions ...tabletheory.Precondition) action {
	return action{purpose: p, state: func(tx *tabletheory.TransactionBuilder) { tx.Update(item, fields, conditions...) }}
}

// remove deletes an item.
func remove(p purpose, item any, conditions ...tabletheory.Precondition) action {
	return action{purpose: p, state: func(tx *tabletheory.TransactionBuilder) { tx.Delete(item, conditions...) }}
}

// require only checks a condition of an item.
func require(p purpose, item any, condition tabletheory.Precondition) action {
	return action{purpose: p, state: func(tx *tabletheory.TransactionBuilder) { tx.ConditionCheck(item, condition) }}
}

// A transaction is one TransactWriteItems call. It is never altered, so that it can
// be repeated under its client token.
type transaction struct {
	store *Store
	token string // the ClientRequestToken
	parts [][]action

	made     time.Time // on the monotonic clock
	madeWall time.Time

	units float64 // write units of the reply; 0 if it was lost
}

// newTransaction makes a transaction of the actions of all parts. A purpose, with its
// item, occurs at most once in a part.
func (s *Store) newTransaction(parts ...[]action) *transaction {
	return &transaction{store: s, token: rand.Text(), parts: parts, made: time.Now(), madeWall: s.config.Now()}
}

// A label identifies an action in the reply to a transaction.
type label struct {
	part    int
	purpose purpose
	item    itemKey
}

// expired reports whether DynamoDB may have forgotten the client token, so that a
// repetition could be executed a second time. The monotonic clock stops on some systems
// while a machine sleeps, and the wall clock may be set back: the larger age counts.
func (t *transaction) expired() bool {
	return max(time.Since(t.made), t.store.config.Now().Sub(t.madeWall)) > tabletheory.TokenLife
}

// send makes one call. It returns errTokenExpired, which leaves the outcome open, if
// the client token is too old.
func (t *transaction) send(ctx context.Context) error {
	if t.expired() {
		return errTokenExpired
	}
	ctx = context.WithValue(ctx, transactionKey{}, t)
	return t.store.db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
		for i, part := range t.parts {
			for _, a := range part {
				a.state(tx)
				tx.Label(label{i, a.purpose, a.item})
			}
		}
		tx.ClientRequestToken(t.token)
		return nil
	})
}

// A refusal is why a transaction was cancelled: the reasons of the actions whose
// conditions failed.
type refusal map[purpose]tabletheory.Reason

// refusal returns the failed conditions of a part; empty if err is not a
// cancellation.
func (t *transaction) refusal(err error, part int) refusal {
	why := make(refusal)
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok {
		return why
	}
	for _, a := range t.parts[part] {
		if reason, ok := canceled.Reason(label{part, a.purpose, a.item}); ok && reason.ConditionFailed() {
			why[a.purpose] = reason
		}
	}
	return why
}

// conflicted reports whether an action of a part caused the cancellation, such as by
// a conflict with another transaction. With items it is one on any of them.
func (t *transaction) conflicted(err error, part int, items []itemKey) bool {
	canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
	return ok && slices.ContainsFunc(t.parts[part], func(a action) bool {
		reason, ok := canceled.Reason(label{part, a.purpose, a.item})
		return ok && reason.Failed() && (items == nil || slices.Contains(items, a.item))
	})
}

// has reports whether the condition of an action failed.
func (r refusal) has(p purpose) bool {
	_, ok := r[p]
	return ok
}
