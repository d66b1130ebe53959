package tabletheory

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DynamoDB's bounds on the actions of a transaction, and on its token in characters.
const (
	maxActions = 100
	maxToken   = 36
)

// TransactWrite executes the actions that build states, all or none of them.
// Each action encodes its model when it is stated. Versions and times are stored
// in the models after the transaction has succeeded. An error of build is
// wrapped, and nothing is sent.
//
// A transaction that was cancelled only for transient reasons, or whose reply
// was lost, is sent again, up to [WithRetries] times, as the same request with
// the same token. DynamoDB then reports an earlier success or executes it, so
// that it happens at most once. A refused transaction is a *[TransactionError];
// after any other error [OutcomeOf] tells whether it can have happened.
func (db *DB) TransactWrite(ctx context.Context, build func(tx *TransactionBuilder) error) error {
	tx := &TransactionBuilder{mapper: db.mapper, ctx: ctx}
	if err := build(tx); err != nil {
		return fmt.Errorf("tabletheory: build a transaction: %w", err)
	}
	if err := tx.check(); err != nil {
		return err
	}
	return tx.execute()
}

// TransactionBuilder collects the actions of one transaction: 1 to 100, each on
// a different item. A model is a struct or a pointer to one, and is encoded
// when the action is stated. ConditionCheck and UpdateWithBuilder use only its
// key, Delete only its key and version. Versions and times are handled as by
// [Query]. A precondition [AtVersion] replaces the version of the model.
//
// The builder keeps the first error; [DB.TransactWrite] returns it and sends
// nothing.
type TransactionBuilder struct {
	*mapper
	ctx    context.Context
	err    error // the first error; nothing is sent if there is one
	writes []*write
	token  string // empty: a random one
}

// Put stores a whole item, as [Query.CreateOrUpdate] does.
func (tx *TransactionBuilder) Put(m any, conditions ...Precondition) *TransactionBuilder {
	return tx.addWhole(kindPut, m, conditions, (*write).preparePut)
}

// Create stores a whole item that must not exist.
func (tx *TransactionBuilder) Create(m any, conditions ...Precondition) *TransactionBuilder {
	return tx.addWhole(kindCreate, m, conditions, (*write).prepareCreate)
}

// Update updates fields as [Query.Update] does. The version in the model is
// incremented when the transaction has succeeded.
func (tx *TransactionBuilder) Update(m any, fields []string, conditions ...Precondition) *TransactionBuilder {
	return tx.addKeyed(kindUpdate, m, conditions, func(w *write) error { return w.prepareUpdate(tx.ctx, fields) })
}

// UpdateWithBuilder applies the update that change builds. Calling Execute or
// ExecuteWithResult in change is an error.
func (tx *TransactionBuilder) UpdateWithBuilder(m any, change func(*UpdateBuilder) error, conditions ...Precondition) *TransactionBuilder {
	return tx.addKeyed(kindUpdate, m, conditions, func(w *write) error {
		b := &UpdateBuilder{write: w, ctx: tx.ctx, executor: "a transaction"}
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
func (tx *TransactionBuilder) Delete(m any, conditions ...Precondition) *TransactionBuilder {
	return tx.addKeyed(kindDelete, m, conditions, (*write).prepareDelete)
}

// ConditionCheck checks conditions on an item that the transaction does not
// change. It needs at least one.
func (tx *TransactionBuilder) ConditionCheck(m any, conditions ...Precondition) *TransactionBuilder {
	return tx.addKeyed(kindConditionCheck, m, conditions, func(w *write) error {
		if w.condition.IsEmpty() {
			return fmt.Errorf("%w: ConditionCheck without a condition: add one, or remove the check", ErrInvalidQuery)
		}
		return nil
	})
}

// ClientRequestToken sets the token of the request, 1 to 36 characters. Within
// ten minutes DynamoDB applies at most one of the requests with the same token
// and content, and gives the others the same answer. The default is a random
// token, the same for all attempts of one TransactWrite.
//
// Times and ciphertexts are part of the content: a second TransactWrite with
// the same token is the same request only if it writes neither; otherwise
// DynamoDB refuses it.
func (tx *TransactionBuilder) ClientRequestToken(token string) *TransactionBuilder {
	if n := utf8.RuneCountInString(token); tx.err == nil && (n == 0 || n > maxToken) {
		tx.err = invalid("a client request token must have 1 to %d characters, got %d", maxToken, n)
	}
	tx.token = token
	return tx
}

// Label labels the action that was stated last, so that [TransactionError.Reason]
// finds it. A label is a value that can be compared with ==, such as a string, and
// belongs to one action of the transaction.
func (tx *TransactionBuilder) Label(label any) *TransactionBuilder {
	switch n := len(tx.writes); {
	case tx.err != nil:
	case n == 0:
		tx.err = invalid("Label(%v) comes before the first action: call it after the action that it labels", label)
	case label == nil || !reflect.ValueOf(label).Comparable():
		tx.err = invalid("Label(%T): a label is a comparable value, such as a string", label)
	case tx.writes[n-1].label != nil:
		tx.err = invalid("Label(%v): action %d of the transaction has the label %v", label, n-1, tx.writes[n-1].label)
	default:
		i := slices.IndexFunc(tx.writes, func(w *write) bool { return w.label == label })
		if i >= 0 {
			tx.err = invalid("Label(%v): actions %d and %d of the transaction have the same label", label, i, n-1)
			return tx
		}
		tx.writes[n-1].label = label
	}
	return tx
}

func (tx *TransactionBuilder) addWhole(kind string, m any, conditions []Precondition, build func(*write, context.Context) error) *TransactionBuilder {
	return tx.add(kind, m, func(t *target) (*write, error) {
		w, err := t.newWrite(kind, nil, conditions)
		if err == nil {
			err = build(w, tx.ctx)
		}
		return w, err
	})
}

func (tx *TransactionBuilder) addKeyed(kind string, m any, conditions []Precondition, build func(*write) error) *TransactionBuilder {
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

func (tx *TransactionBuilder) add(kind string, m any, build func(*target) (*write, error)) *TransactionBuilder {
	switch n := len(tx.writes); {
	case tx.err != nil:
		return tx
	case n == maxActions:
		tx.err = invalid("a transaction has at most %d actions: split it if its parts need not be atomic", maxActions)
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

// check returns an error for a transaction that DynamoDB would refuse.
func (tx *TransactionBuilder) check() error {
	switch {
	case tx.err != nil:
		return tx.err
	case len(tx.writes) == 0:
		return invalid("a transaction needs at least one action")
	}
	seen := make(map[string]int, len(tx.writes))
	for i, w := range tx.writes {
		id := w.identity(w.itemKey())
		if first, ok := seen[id]; ok {
			return invalid("actions %d and %d of a transaction, %s and %s, are on one item, %s in table %s: merge them, with their conditions",
				first, i, tx.writes[first].kind, w.kind, w.describe(w.itemKey()), w.table)
		}
		seen[id] = i
	}
	return nil
}

// execute sends the transaction. The request is the same at every attempt, token
// included: even after a cancellation an earlier attempt may have succeeded with
// its reply lost, and only the token makes DynamoDB report that.
func (tx *TransactionBuilder) execute() error {
	if err := tx.send(); err != nil {
		return transactionFailure("write a transaction", tx.actions(), err)
	}
	return nil
}

// send is execute with DynamoDB's own error.
func (tx *TransactionBuilder) send() error {
	if tx.token == "" {
		tx.token = rand.Text()
	}
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: &tx.token, TransactItems: make([]types.TransactWriteItem, len(tx.writes)),
	}
	for i, w := range tx.writes {
		in.TransactItems[i] = w.transactItem()
	}
	if err := errUnsent(tx.ctx); err != nil {
		return err
	}
	a := new(attempts) // of all calls, which are one request
	err := tx.retry(tx.ctx, func() error {
		_, err := tx.api.TransactWriteItems(tx.ctx, in, a.observe)
		return a.classify(err)
	})
	if err != nil {
		return err
	}
	for _, w := range tx.writes {
		w.updateModel()
	}
	return nil
}

// actions returns the writes for errors.
func (tx *TransactionBuilder) actions() []action {
	actions := make([]action, len(tx.writes))
	for i, w := range tx.writes {
		actions[i] = action{target: w.target, label: w.label, kind: w.kind, key: w.itemKey(), wantVersion: w.wantVersion}
	}
	return actions
}

// transactItem returns the write as an action of a transaction.
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
