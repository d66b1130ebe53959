package tabletheory

import (
	"context"
	"crypto/rand"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/core"
)

// Bounds of a transaction: of its actions, and of its token in characters.
const (
	maxActions = 100
	maxToken   = 36
)

// TransactWrite carries out the actions that build states, all or none of them.
// Each takes its model as it is when it is stated; versions and times are stored
// in the models once all has happened, and only then. An error of build is
// returned as it is, wrapped, and nothing is sent.
//
// A transaction that was cancelled only for reasons that pass, or whose answer
// was lost, is sent again, [WithRetries] times at most, as the same request with
// the same token: DynamoDB then answers that it had succeeded before, or tries
// it once more. So it happens at most once, however often it is sent. What is
// refused is a
// *[TransactionError]; after any other error [OutcomeOf] tells whether it can
// have happened.
func (db *DB) TransactWrite(ctx context.Context, build func(tx core.TransactionBuilder) error) error {
	tx := &transaction{mapper: db.mapper, ctx: ctx}
	if err := build(tx); err != nil {
		return fmt.Errorf("tabletheory: build a transaction: %w", err)
	}
	if err := tx.check(); err != nil {
		return err
	}
	return tx.send()
}

// transaction is the [core.TransactionBuilder] of a DB.
type transaction struct {
	*mapper
	ctx    context.Context
	err    error // the first mistake; nothing is sent if there is one
	writes []*write
	token  string // empty: a random one
}

var _ core.TransactionBuilder = (*transaction)(nil)

// Put stores a whole item.
func (tx *transaction) Put(m any, conditions ...core.Condition) core.TransactionBuilder {
	return tx.whole(kindPut, m, conditions, (*write).put)
}

// Create stores a whole item that may not exist yet.
func (tx *transaction) Create(m any, conditions ...core.Condition) core.TransactionBuilder {
	return tx.whole(kindCreate, m, conditions, (*write).create)
}

// Update sets fields of a stored item.
func (tx *transaction) Update(m any, fields []string, conditions ...core.Condition) core.TransactionBuilder {
	return tx.keyed(kindUpdate, m, conditions, func(w *write) error { return w.change(tx.ctx, fields) })
}

// UpdateWithBuilder changes attributes of an item.
func (tx *transaction) UpdateWithBuilder(m any, change func(core.UpdateBuilder) error, conditions ...core.Condition) core.TransactionBuilder {
	return tx.keyed(kindUpdate, m, conditions, func(w *write) error {
		b := &updateBuilder{write: w, ctx: tx.ctx, within: "a transaction"}
		if change == nil {
			return fmt.Errorf("%w: UpdateWithBuilder takes a function, not nil", ErrInvalidQuery)
		}
		if err := change(b); err != nil {
			return err
		}
		if b.err != nil {
			return b.err
		}
		return b.finish(tx.ctx)
	})
}

// Delete deletes an item.
func (tx *transaction) Delete(m any, conditions ...core.Condition) core.TransactionBuilder {
	return tx.keyed(kindDelete, m, conditions, (*write).remove)
}

// ConditionCheck only demands.
func (tx *transaction) ConditionCheck(m any, conditions ...core.Condition) core.TransactionBuilder {
	return tx.keyed(kindConditionCheck, m, conditions, func(w *write) error {
		if w.condition.IsEmpty() {
			return fmt.Errorf("%w: a condition check without a condition: give one, or leave it out", ErrInvalidQuery)
		}
		return nil
	})
}

// ClientRequestToken names the request.
func (tx *transaction) ClientRequestToken(token string) core.TransactionBuilder {
	if n := utf8.RuneCountInString(token); tx.err == nil && (n == 0 || n > maxToken) {
		tx.err = invalid("a client request token has 1 to %d characters, not %d", maxToken, n)
	}
	tx.token = token
	return tx
}

func (tx *transaction) whole(kind string, m any, conditions []core.Condition, build func(*write, context.Context) error) core.TransactionBuilder {
	return tx.add(kind, m, func(t *target) (*write, error) {
		w, err := t.newWrite(kind, nil, conditions)
		if err == nil {
			err = build(w, tx.ctx)
		}
		return w, err
	})
}

func (tx *transaction) keyed(kind string, m any, conditions []core.Condition, build func(*write) error) core.TransactionBuilder {
	return tx.add(kind, m, func(t *target) (*write, error) {
		key, err := t.model.EncodeKey(t.value)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidModel, err)
		}
		w, err := t.newWrite(kind, key, conditions)
		if err == nil {
			err = build(w)
		}
		return w, err
	})
}

func (tx *transaction) add(kind string, m any, build func(*target) (*write, error)) core.TransactionBuilder {
	switch n := len(tx.writes); {
	case tx.err != nil:
		return tx
	case n == maxActions:
		tx.err = invalid("a transaction has at most %d actions: split it, if its parts need not happen together", maxActions)
		return tx
	}
	t, err := tx.target(m)
	var w *write
	if err == nil {
		w, err = build(t)
	}
	if err != nil {
		tx.err = fmt.Errorf("tabletheory: action %d of a transaction, %s: %w", len(tx.writes), kind, err)
		return tx
	}
	tx.writes = append(tx.writes, w)
	return tx
}

// check refuses what DynamoDB would refuse.
func (tx *transaction) check() error {
	switch {
	case tx.err != nil:
		return tx.err
	case len(tx.writes) == 0:
		return invalid("a transaction has at least one action")
	}
	seen := make(map[string]int, len(tx.writes))
	for i, w := range tx.writes {
		id := w.identity(w.itemKey())
		if first, ok := seen[id]; ok {
			return invalid("actions %d and %d of a transaction, %s and %s, are on one item, %s in table %s: a transaction changes an item once; join them, and state conditions with the change",
				first, i, tx.writes[first].kind, w.kind, w.describe(w.itemKey()), w.table)
		}
		seen[id] = i
	}
	return nil
}

// send carries the transaction out. The request is the same at every attempt,
// token included: even after a cancellation an earlier attempt, whose answer
// was lost beneath the SDK, may have happened, and only its token can tell.
func (tx *transaction) send() error {
	if err := tx.post(); err != nil {
		return transactionFailure("write a transaction", tx.actions(), err)
	}
	return nil
}

// post is send, with DynamoDB's own error.
func (tx *transaction) post() error {
	if tx.token == "" {
		tx.token = rand.Text()
	}
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: &tx.token, TransactItems: make([]types.TransactWriteItem, len(tx.writes)),
	}
	for i, w := range tx.writes {
		in.TransactItems[i] = w.transactItem()
	}
	a := new(attempts) // of all calls: they are one request
	err := tx.repeat(tx.ctx, func() error {
		_, err := tx.api.TransactWriteItems(tx.ctx, in, a.follow)
		return a.judge(err)
	})
	if err != nil {
		return err
	}
	for _, w := range tx.writes {
		w.happened()
	}
	return nil
}

// actions are the writes as errors tell of them.
func (tx *transaction) actions() []action {
	actions := make([]action, len(tx.writes))
	for i, w := range tx.writes {
		actions[i] = action{target: w.target, kind: w.kind, key: w.itemKey(), demanded: w.demanded}
	}
	return actions
}

// transactItem is the write as an action of a transaction.
func (w *write) transactItem() types.TransactWriteItem {
	table, condition := &w.table, text(w.condition.String())
	names, values := w.expressions.Names(), w.expressions.Values()
	switch w.kind {
	case kindPut, kindCreate:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: table, Item: w.item, ConditionExpression: condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: w.onFailure(),
		}}
	case kindUpdate:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: table, Key: w.key, UpdateExpression: &w.update, ConditionExpression: condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: w.onFailure(),
		}}
	case kindDelete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: table, Key: w.key, ConditionExpression: condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: w.onFailure(),
		}}
	}
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: table, Key: w.key, ConditionExpression: condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}}
}
