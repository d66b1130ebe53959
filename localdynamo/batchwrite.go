package localdynamo

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxBatchWrite is the maximum number of puts and deletes per BatchWriteItem.
const maxBatchWrite = 25

// BatchWriteItem puts and deletes up to 25 items of any tables. Unlike on AWS it
// is atomic, and UnprocessedItems is always empty.
func (db *DB) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	in = orEmpty(in)
	if err := joinFaults(checkCapacityMode(in.ReturnConsumedCapacity), checkMetricsMode(in.ReturnItemCollectionMetrics)); err != nil {
		return nil, err
	}
	operations, err := batchOperations(in.RequestItems)
	if err != nil {
		return nil, err
	}
	mutations := make([]*mutation, len(operations))
	seen := make(map[string]struct{}, len(operations))
	for i, o := range operations {
		if mutations[i], err = db.check(o); err != nil {
			return nil, withLegacyWording(err)
		}
	}
	for i, m := range mutations {
		if err := m.planInBatch(db, operations[i].table); err != nil {
			return nil, err
		}
		seen[m.table.Name+"/"+string(m.key)] = struct{}{} // table names contain no slash
	}
	if len(seen) < len(mutations) {
		return nil, errDuplicateKeys()
	}
	var cost bill
	err = db.submit(ctx, func(tx *transaction) error {
		cost = nil
		effects := make([]effect, len(mutations))
		for i, m := range mutations {
			if effects[i], err = m.evaluate(tx); err != nil {
				return err
			}
		}
		for i, m := range mutations {
			if err := m.apply(tx, effects[i]); err != nil {
				return err
			}
			cost.add(effects[i].usage(m.table), 1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	metrics, err := collections(in.ReturnItemCollectionMetrics, mutations)
	if err != nil {
		return nil, db.internal(err)
	}
	return &dynamodb.BatchWriteItemOutput{
		UnprocessedItems:      map[string][]types.WriteRequest{}, // boto3 fails without it
		ConsumedCapacity:      cost.consumed(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: metrics,
	}, nil
}

// planInBatch is the part of plan that needs the table. As on AWS it differs in
// one point: an item with an invalid key gets the error text for keys.
func (m *mutation) planInBatch(db *DB, name *string) error {
	if err := m.resolveTable(db, name); err != nil {
		return err
	}
	if err := m.table.checkKeyTypes(m.fields); err != nil {
		return err
	}
	if err := m.resolveKey(); err != nil {
		return err
	}
	return m.encode()
}

// batchOperations lists the requested operations, sorted by table name.
func batchOperations(requests map[string][]types.WriteRequest) ([]*operation, error) {
	if err := checkLength("RequestItems", len(requests), math.MaxInt); err != nil {
		return nil, err
	}
	var out []*operation
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if err := checkBatchTable(name); err != nil {
			return nil, err
		}
		if len(requests[name]) == 0 {
			return nil, errConstraint("{"+name+"=[]}", "requestItems",
				"Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]")
		}
		if err := checkLength("RequestItems."+name+".member", len(requests[name]), maxBatchWrite); err != nil {
			return nil, err
		}
		for _, request := range requests[name] {
			o, err := batchOperation(&name, request)
			if err != nil {
				return nil, err
			}
			out = append(out, o)
		}
	}
	if len(out) > maxBatchWrite {
		return nil, invalid("Too many items requested for the BatchWriteItem call")
	}
	return out, nil
}

func batchOperation(table *string, request types.WriteRequest) (*operation, error) {
	put, remove := request.PutRequest, request.DeleteRequest
	switch {
	case put != nil && remove == nil:
		return &operation{verb: verbPut, table: table, item: put.Item}, nil
	case remove != nil && put == nil:
		return &operation{verb: verbDelete, table: table, key: remove.Key}, nil
	}
	return nil, invalid("A WriteRequest must contain exactly one of PutRequest and DeleteRequest")
}
