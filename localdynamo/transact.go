package localdynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Limits of one transaction.
const (
	maxActions     = 100
	maxTransaction = 4 << 20 // bytes of the request's items, keys and values, or of the items read
)

// Codes of a types.CancellationReason.
const (
	reasonNone       = "None"
	reasonCondition  = "ConditionalCheckFailed"
	reasonValidation = "ValidationError"
)

// TransactWriteItems performs all of its actions or none. If one fails, the
// error is a *types.TransactionCanceledException with one reason per action, in
// order. A ClientRequestToken is an idempotency key: a retry with it within ten
// minutes succeeds and writes nothing; with other parameters the error is a
// *types.IdempotentParameterMismatchException. Tokens survive a restart.
func (db *DB) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	in = orEmpty(in)
	if err := checkToken(in.ClientRequestToken); err != nil {
		return nil, err
	}
	if err := joinFaults(checkCapacityMode(in.ReturnConsumedCapacity), checkMetricsMode(in.ReturnItemCollectionMetrics), checkActionFields(in.TransactItems)); err != nil {
		return nil, err
	}
	operations, mutations, err := db.planActions(in.TransactItems)
	if err != nil {
		return nil, err
	}
	returning := slices.DeleteFunc(slices.Clone(mutations), func(m *mutation) bool { return !m.returnsOnFailure() })
	if len(returning) > 0 {
		if err := db.reserveReturned(ctx, returning...); err != nil {
			return nil, err
		}
	}
	replay := db.newToken(in.ClientRequestToken, operations)
	var cost transactionCost
	repeated := false
	err = db.submit(ctx, func(tx *transaction) error {
		var err error
		if cost, repeated, err = replay.lookUp(tx); repeated || err != nil {
			return err
		}
		effects, err := evaluateAll(tx, mutations)
		if err != nil {
			return err
		}
		cost = costOf(mutations, effects)
		return db.applyAll(tx, mutations, effects, replay, cost)
	})
	if err != nil {
		return nil, err
	}
	metrics, err := collections(in.ReturnItemCollectionMetrics, mutations)
	if err != nil {
		return nil, db.internal(err)
	}
	return &dynamodb.TransactWriteItemsOutput{
		ConsumedCapacity:      cost.consumed(in.ReturnConsumedCapacity, repeated),
		ItemCollectionMetrics: metrics,
	}, nil
}

// checkActionFields checks the number of actions and their table names.
func checkActionFields(actions []types.TransactWriteItem) error {
	faults := []error{checkActionCount(len(actions))}
	for i := range actions {
		faults = append(faults, checkActionTable(fmt.Sprintf("transactItems.%d.member", i+1), &actions[i]))
	}
	return joinFaults(faults...)
}

// checkActionTable checks the table name of an action. member is the action's
// path in the request.
func checkActionTable(member string, action *types.TransactWriteItem) (err error) {
	switch {
	case action.Put != nil:
		_, err = tableNameAt(member+".put.tableName", action.Put.TableName)
	case action.Update != nil:
		_, err = tableNameAt(member+".update.tableName", action.Update.TableName)
	case action.Delete != nil:
		_, err = tableNameAt(member+".delete.tableName", action.Delete.TableName)
	case action.ConditionCheck != nil:
		_, err = tableNameAt(member+".conditionCheck.tableName", action.ConditionCheck.TableName)
	default:
		err = errConstraint("", "transactItems", "TransactWriteRequest should contain Delete or Put or Update or ConditionCheck")
	}
	return err
}

// planActions validates the actions in AWS's order: fields and expressions of
// all actions, then tables, then keys. The first invalid key cancels the
// transaction, as its only reason. Any other error that does not depend on a
// stored item is a ValidationException of the whole request.
func (db *DB) planActions(actions []types.TransactWriteItem) ([]*operation, []*mutation, error) {
	operations := make([]*operation, len(actions))
	mutations := make([]*mutation, len(actions))
	payload := 0
	for i := range actions {
		var err error
		if operations[i], err = operationOf(&actions[i]); err != nil {
			return nil, nil, err
		}
		if mutations[i], err = db.check(operations[i]); err != nil {
			return nil, nil, err
		}
		payload += mutations[i].payload
	}
	for i, m := range mutations {
		if err := m.resolveTable(db, operations[i].table); err != nil {
			return nil, nil, err
		}
	}
	for i, m := range mutations {
		if err := m.resolveKey(); err != nil {
			return nil, nil, canceledBy(i, len(mutations), err)
		}
	}
	for _, m := range mutations {
		if err := m.encode(); err != nil {
			return nil, nil, err
		}
	}
	if payload > maxTransaction {
		return nil, nil, errTransactionSize(payload)
	}
	return operations, mutations, checkDistinctItems(mutations)
}

// applyAll writes the effects and records the token. Both are in one commit, so
// a crash leaves both or neither.
func (db *DB) applyAll(tx *transaction, mutations []*mutation, effects []effect, token *requestToken, cost transactionCost) error {
	for i, m := range mutations {
		if err := m.apply(tx, effects[i]); err != nil {
			return err
		}
	}
	return token.record(tx, cost)
}

// operationOf returns the single operation of an action.
func operationOf(action *types.TransactWriteItem) (*operation, error) {
	var found []*operation
	if c := action.ConditionCheck; c != nil {
		if c.ConditionExpression == nil {
			return nil, invalid("1 validation error detected: Value null at 'transactItems.conditionCheck.conditionExpression' failed to satisfy constraint: Member must not be null")
		}
		found = append(found, &operation{
			verb: verbCheck, table: c.TableName, key: c.Key, condition: c.ConditionExpression,
			names: c.ExpressionAttributeNames, values: c.ExpressionAttributeValues, onFailure: c.ReturnValuesOnConditionCheckFailure,
		})
	}
	if p := action.Put; p != nil {
		found = append(found, &operation{
			verb: verbPut, table: p.TableName, item: p.Item, condition: p.ConditionExpression,
			names: p.ExpressionAttributeNames, values: p.ExpressionAttributeValues, onFailure: p.ReturnValuesOnConditionCheckFailure,
		})
	}
	if u := action.Update; u != nil {
		if u.UpdateExpression == nil {
			return nil, invalid("1 validation error detected: Value null at 'transactItems.update.updateExpression' failed to satisfy constraint: Member must not be null")
		}
		found = append(found, &operation{
			verb: verbUpdate, table: u.TableName, key: u.Key, update: u.UpdateExpression, condition: u.ConditionExpression,
			names: u.ExpressionAttributeNames, values: u.ExpressionAttributeValues, onFailure: u.ReturnValuesOnConditionCheckFailure,
		})
	}
	if d := action.Delete; d != nil {
		found = append(found, &operation{
			verb: verbDelete, table: d.TableName, key: d.Key, condition: d.ConditionExpression,
			names: d.ExpressionAttributeNames, values: d.ExpressionAttributeValues, onFailure: d.ReturnValuesOnConditionCheckFailure,
		})
	}
	if len(found) != 1 {
		return nil, invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return found[0], nil
}

func checkActionCount(n int) error {
	return checkLength("TransactItems", n, maxActions)
}

func errSameItem() error {
	return invalid("Transaction request cannot include multiple operations on one item")
}

func errTransactionSize(size int) error {
	return invalid("Transaction payload size cannot exceed 4MB. Payload Size: %d", size)
}

func checkDistinctItems(mutations []*mutation) error {
	seen := make(map[string]struct{}, len(mutations))
	for _, m := range mutations {
		seen[m.table.Name+"/"+string(m.key)] = struct{}{} // table names contain no slash
	}
	if len(seen) < len(mutations) {
		return errSameItem()
	}
	return nil
}

// evaluateAll computes the effect of each action on the items as they are before
// the transaction. No two actions share an item, so none depends on another, and
// all are evaluated before anything is written.
func evaluateAll(tx *transaction, mutations []*mutation) ([]effect, error) {
	effects := make([]effect, len(mutations))
	reasons := make([]types.CancellationReason, len(mutations))
	canceled := false
	for i, m := range mutations {
		var err error
		effects[i], err = m.evaluate(tx)
		if reasons[i], err = reasonFor(err); err != nil {
			return nil, err
		}
		canceled = canceled || *reasons[i].Code != reasonNone
	}
	if canceled {
		return nil, cancellation(reasons)
	}
	return effects, nil
}

// reasonFor converts an action's error to a cancellation reason. It returns
// errors that have no reason, such as a failure of the store.
func reasonFor(err error) (types.CancellationReason, error) {
	if err == nil {
		return types.CancellationReason{Code: aws.String(reasonNone)}, nil
	}
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return types.CancellationReason{Code: aws.String(reasonCondition), Message: failed.Message, Item: failed.Item}, nil
	}
	if message, ok := validationMessage(err); ok {
		return types.CancellationReason{Code: aws.String(reasonValidation), Message: &message}, nil
	}
	return types.CancellationReason{}, err
}

// canceledBy returns the cancellation for a fault of action i of n.
func canceledBy(i, n int, fault error) error {
	reasons := make([]types.CancellationReason, n)
	for j := range reasons {
		reasons[j].Code = aws.String(reasonNone)
	}
	var err error
	if reasons[i], err = reasonFor(fault); err != nil {
		return err
	}
	return cancellation(reasons)
}

func cancellation(reasons []types.CancellationReason) error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = *r.Code
	}
	message := "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"
	return &types.TransactionCanceledException{Message: &message, CancellationReasons: reasons}
}

func costOf(mutations []*mutation, effects []effect) transactionCost {
	var p transactionCost
	for i, m := range mutations {
		size := max(effects[i].before.Size(), value.View(effects[i].after).Size())
		p.Reads.add(usage{Table: m.table.Name, Units: readUnits(size, true)}, 2)
		p.Writes.add(effects[i].usage(m.table), 2)
	}
	return p
}
