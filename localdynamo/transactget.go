package localdynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// TransactGetItems reads up to 100 items of any tables, together at most 4 MB,
// as they were at one moment. The answers stand in the order of the requests;
// one without an Item found none. A key that does not fit its table cancels
// the transaction with a *types.TransactionCanceledException.
func (db *DB) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	in = orEmpty(in)
	if err := together(checkCapacityMode(in.ReturnConsumedCapacity), checkGetFields(in.TransactItems)); err != nil {
		return nil, err
	}
	plans, err := db.planTransactGet(in.TransactItems)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.TransactGetItemsOutput{Responses: make([]types.ItemResponse, len(plans))}
	var cost bill
	err = db.view(ctx, func(r store.Reader) error {
		size := 0
		for i := range plans {
			item, err := plans[i].read(r)
			if err != nil {
				return err
			}
			if size += item.Size(); size > maxTransaction {
				return errTransactionSize(size)
			}
			cost.add(usage{Table: plans[i].table.Name, Units: readUnits(item.Size(), true)}, 2)
			found, err := plans[i].found(item)
			if err != nil {
				return err
			}
			if len(found) > 0 { // in a transaction, an item of which the projection leaves nothing is none
				out.Responses[i].Item = found
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.ConsumedCapacity = asReads(cost.consumed(in.ReturnConsumedCapacity))
	return out, nil
}

// checkGetFields checks how many requests there are, and what tables and keys
// they name.
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
	return together(faults...)
}

// planTransactGet checks the requests, whose fields are checked. A key that is not like its table's is a
// reason of its own request, the first one only; anything else, the fault of
// the whole.
func (db *DB) planTransactGet(requests []types.TransactGetItem) ([]lookup, error) {
	plans := make([]lookup, len(requests))
	keys := make([]map[string]types.AttributeValue, len(requests))
	for i, request := range requests {
		var err error
		if keys[i], err = value.NormalizeItem(request.Get.Key); err != nil {
			return nil, asInvalid(err)
		}
		if plans[i].projection, err = db.projection(request.Get.ProjectionExpression, request.Get.ExpressionAttributeNames); err != nil {
			return nil, err
		}
	}
	for i, request := range requests {
		var err error
		if plans[i].table, err = db.lookUp(request.Get.TableName); err != nil {
			return nil, err
		}
		if err = plans[i].table.checkFilled(keys[i]); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]struct{}, len(requests))
	for i := range plans {
		var err error
		if plans[i].key, err = plans[i].table.keyFrom(keys[i]); err != nil {
			return nil, canceledBy(i, len(plans), err)
		}
		seen[plans[i].table.Name+"/"+string(plans[i].key)] = struct{}{} // a table's name holds no slash
	}
	if len(seen) < len(plans) {
		return nil, errSameItem()
	}
	return plans, nil
}
