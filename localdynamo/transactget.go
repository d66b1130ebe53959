package localdynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// TransactGetItems reads up to 100 items of any tables, at most 4 MB in total,
// from one snapshot. Responses are in the order of the requests; Item is nil if
// there is none. A key that does not match the table's schema cancels the
// transaction with a *types.TransactionCanceledException.
func (db *DB) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	in = orEmpty(in)
	if err := joinFaults(checkCapacityMode(in.ReturnConsumedCapacity), checkGetFields(in.TransactItems)); err != nil {
		return nil, err
	}
	plans, err := db.planTransactGet(in.TransactItems)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.TransactGetItemsOutput{Responses: make([]types.ItemResponse, len(plans))}
	var cost bill
	size, left := 0, 0 // bytes of the items that have been read, and number of the others
	err = db.viewForAnswer(ctx, func() int { return min(maxTransaction, size+value.MaxItemSize*left) }, func(r store.Reader, meter *answer.Meter) error {
		size, cost = 0, nil
		for i := range plans {
			item, err := plans[i].read(r)
			if err != nil {
				return err
			}
			left = len(plans) - i - 1
			if size += item.Size(); size > maxTransaction {
				return errTransactionSize(size)
			}
			cost.add(usage{Table: plans[i].table.Name, Units: readUnits(item.Size(), true)}, 2)
			found, err := plans[i].project(item, meter)
			if err != nil {
				return err
			}
			if len(found) > 0 { // in a transaction, an empty projection counts as no item
				out.Responses[i].Item = found
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.ConsumedCapacity = withReadUnits(cost.consumed(in.ReturnConsumedCapacity))
	return out, nil
}

// checkGetFields checks the number of requests, and that each has a key and a
// valid table name.
func checkGetFields(requests []types.TransactGetItem) error {
	faults := []error{checkActionCount(len(requests))}
	for i, request := range requests {
		member := fmt.Sprintf("transactItems.%d.member.get", i+1)
		if request.Get == nil {
			faults = append(faults, errNull(member))
			continue
		}
		if request.Get.Key == nil {
			faults = append(faults, errNull(member+".key"))
		}
		_, err := tableNameAt(member+".tableName", request.Get.TableName)
		faults = append(faults, err)
	}
	return joinFaults(faults...)
}

// planTransactGet validates the requests. checkGetFields has passed. The first
// key that does not match its table's schema cancels the transaction, as its
// only reason. Any other error is an error of the whole request.
func (db *DB) planTransactGet(requests []types.TransactGetItem) ([]itemRead, error) {
	plans := make([]itemRead, len(requests))
	keys := make([]map[string]types.AttributeValue, len(requests))
	for i, request := range requests {
		var err error
		if keys[i], err = value.NormalizeItem(request.Get.Key); err != nil {
			return nil, asInvalid(err)
		}
		if plans[i].projection, err = db.parseProjection(request.Get.ProjectionExpression, request.Get.ExpressionAttributeNames); err != nil {
			return nil, err
		}
	}
	for i, request := range requests {
		var err error
		if plans[i].table, err = db.findTable(request.Get.TableName); err != nil {
			return nil, err
		}
		if err = plans[i].table.checkNonEmptyKeys(keys[i]); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]struct{}, len(requests))
	for i := range plans {
		var err error
		if plans[i].key, err = plans[i].table.keyFrom(keys[i]); err != nil {
			return nil, canceledBy(i, len(plans), err)
		}
		seen[plans[i].table.Name+"/"+string(plans[i].key)] = struct{}{} // table names contain no slash
	}
	if len(seen) < len(plans) {
		return nil, errSameItem()
	}
	return plans, nil
}
