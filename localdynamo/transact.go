package localdynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Limits of one transaction.
const (
	maxActions     = 100
	maxTransaction = 4 << 20 // bytes of what is given to be written, or of the items read
)

// Codes of cancellation reasons.
const (
	reasonNone       = "None"
	reasonCondition  = "ConditionalCheckFailed"
	reasonValidation = "ValidationError"
)

// TransactWriteItems does all of its actions or none. If one of them cannot
// be done the error is a *types.TransactionCanceledException with one reason
// per action, in order. A ClientRequestToken makes a repetition within ten
// minutes do nothing and report success; with other parameters it gets a
// *types.IdempotentParameterMismatchException. Tokens outlive a restart.
func (db *DB) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	in = orEmpty(in)
	if err := checkToken(in.ClientRequestToken); err != nil {
		return nil, err
	}
	if err := together(checkCapacityMode(in.ReturnConsumedCapacity), checkMetricsMode(in.ReturnItemCollectionMetrics), checkActionFields(in.TransactItems)); err != nil {
		return nil, err
	}
	operations, mutations, err := db.planActions(in.TransactItems)
	if err != nil {
		return nil, err
	}
	replay := db.token(in.ClientRequestToken, operations)
	var cost price
	repeated := false
	err = db.submit(ctx, func(tx *transaction) error {
		var err error
		if cost, repeated, err = replay.look(tx); repeated || err != nil {
			return err
		}
		effects, err := evaluateAll(tx, mutations)
		if err != nil {
			return err
		}
		cost = priceOf(mutations, effects)
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

// checkActionFields checks how many actions there are, and what tables they
// name.
func checkActionFields(actions []types.TransactWriteItem) error {
	faults := []error{checkActionCount(len(actions))}
	for i := range actions {
		faults = append(faults, checkActionTable(fmt.Sprintf("transactItems.%d.member", i+1), &actions[i]))
	}
	return together(faults...)
}

// checkActionTable checks the table that an action, which stands in member, is
// about.
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

// planActions checks the actions in the order of AWS: all fields and
// expressions first, then the tables, then the keys. What is wrong with a key
// is the first reason that the transaction is canceled for, and the only one;
// anything else that shows without looking at an item is the fault of the
// whole request.
func (db *DB) planActions(actions []types.TransactWriteItem) ([]*operation, []*mutation, error) {
	operations := make([]*operation, len(actions))
	mutations := make([]*mutation, len(actions))
	payload := 0
	for i := range actions {
		var err error
		if operations[i], err = actionOf(&actions[i]); err != nil {
			return nil, nil, err
		}
		if mutations[i], err = db.check(operations[i]); err != nil {
			return nil, nil, err
		}
		payload += mutations[i].payload
	}
	for i, m := range mutations {
		if err := m.aim(db, operations[i].table); err != nil {
			return nil, nil, err
		}
	}
	for i, m := range mutations {
		if err := m.fit(); err != nil {
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

// applyAll writes the effects and remembers the token. All of it goes into
// one commit: a crash leaves both the writes and the token, or neither.
func (db *DB) applyAll(tx *transaction, mutations []*mutation, effects []effect, token *token, cost price) error {
	for i, m := range mutations {
		if err := m.apply(tx, effects[i]); err != nil {
			return err
		}
	}
	return token.remember(tx, cost)
}

// actionOf returns the one operation that an action holds.
func actionOf(action *types.TransactWriteItem) (*operation, error) {
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
		seen[m.table.Name+"/"+string(m.key)] = struct{}{} // a table's name holds no slash
	}
	if len(seen) < len(mutations) {
		return errSameItem()
	}
	return nil
}

// evaluateAll decides what each action does to the items as they are before
// the transaction. Since no two actions share an item, none depends on
// another, and all of them are judged before anything is written.
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

// reasonFor turns an action's error into its reason. An error that is not the
// action's own is returned.
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

// canceledBy is the cancellation for one fault, of the action at i of n.
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

// price is what a transaction costs: the writes when it is done, the reads
// when a request token shows that it was done before. All is doubled, as it is
// in transactions.
type price struct {
	Writes bill
	Reads  bill
}

func priceOf(mutations []*mutation, effects []effect) price {
	var p price
	for i, m := range mutations {
		size := max(effects[i].old.Size(), value.View(effects[i].now).Size())
		p.Reads.add(usage{Table: m.table.Name, Units: readUnits(size, true)}, 2)
		p.Writes.add(effects[i].usage(m.table), 2)
	}
	return p
}

// consumed also says, as AWS does for transactions, whether the units were
// reads or writes.
func (p price) consumed(mode types.ReturnConsumedCapacity, repeated bool) []types.ConsumedCapacity {
	if repeated {
		return asReads(p.Reads.consumed(mode))
	}
	out := p.Writes.consumed(mode)
	for i := range out {
		out[i].WriteCapacityUnits = out[i].CapacityUnits
		eachCapacity(&out[i], func(c *types.Capacity) { c.WriteCapacityUnits = c.CapacityUnits })
	}
	return out
}

func asReads(out []types.ConsumedCapacity) []types.ConsumedCapacity {
	for i := range out {
		out[i].ReadCapacityUnits = out[i].CapacityUnits
		eachCapacity(&out[i], func(c *types.Capacity) { c.ReadCapacityUnits = c.CapacityUnits })
	}
	return out
}

// eachCapacity calls fn for the parts of c.
func eachCapacity(c *types.ConsumedCapacity, fn func(*types.Capacity)) {
	if c.Table != nil {
		fn(c.Table)
	}
	for _, indexes := range []map[string]types.Capacity{c.GlobalSecondaryIndexes, c.LocalSecondaryIndexes} {
		for name, capacity := range indexes {
			fn(&capacity)
			indexes[name] = capacity
		}
	}
}
