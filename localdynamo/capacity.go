package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bytes of one capacity unit.
const (
	readUnit  = 4 << 10
	writeUnit = 1 << 10
)

// readUnits is the price of reading n bytes: at least one unit, and half of
// it all if the read may be stale.
func readUnits(n int, consistent bool) float64 {
	units := float64(max(1, (n+readUnit-1)/readUnit))
	if !consistent {
		units /= 2
	}
	return units
}

// writeUnits is the price of a write that finds and leaves items of these
// sizes: the larger of the two counts.
func writeUnits(before, after int) float64 {
	return float64(max(1, (max(before, after)+writeUnit-1)/writeUnit))
}

// consumed answers a request for the capacity of one table.
func consumed(mode types.ReturnConsumedCapacity, table string, units float64) *types.ConsumedCapacity {
	switch mode {
	case types.ReturnConsumedCapacityTotal:
		return &types.ConsumedCapacity{TableName: &table, CapacityUnits: &units}
	case types.ReturnConsumedCapacityIndexes:
		return &types.ConsumedCapacity{TableName: &table, CapacityUnits: &units, Table: &types.Capacity{CapacityUnits: aws.Float64(units)}}
	}
	return nil
}

func checkCapacityMode(mode types.ReturnConsumedCapacity) error {
	switch mode {
	case "", types.ReturnConsumedCapacityNone, types.ReturnConsumedCapacityTotal, types.ReturnConsumedCapacityIndexes:
		return nil
	}
	return invalid("1 validation error detected: Value '%s' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]", mode)
}
