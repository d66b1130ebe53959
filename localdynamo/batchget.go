package localdynamo

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Limits of one BatchGetItem.
const (
	maxBatchGet      = 100        // keys
	maxBatchResponse = 16_000_000 // bytes of items returned
)

// BatchGetItem reads up to 100 items of any tables from one snapshot. It returns
// at most 16 MB of items; the keys of the rest are in UnprocessedKeys.
func (db *DB) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	in = orEmpty(in)
	names, err := batchGetTables(in.RequestItems)
	if err := joinFaults(err, checkCapacityMode(in.ReturnConsumedCapacity)); err != nil {
		return nil, err
	}
	keys, err := normalizeKeys(names, in.RequestItems)
	if err != nil {
		return nil, err
	}
	projections, err := db.batchProjections(names, in.RequestItems)
	if err != nil {
		return nil, err
	}
	var b batchGet
	plans := make([][]itemRead, len(names))
	total := 0
	for i, name := range names {
		if plans[i], err = db.planKeys(name, keys[i], projections[i]); err != nil {
			return nil, err
		}
		total += len(plans[i])
	}
	err = db.viewForAnswer(ctx, func() int { return min(maxBatchResponse, b.bytes+value.MaxItemSize*b.left) }, func(r store.Reader, meter *answer.Meter) error {
		b = batchGet{
			responses:   make(map[string][]map[string]types.AttributeValue, len(names)),
			unprocessed: map[string]types.KeysAndAttributes{},
			left:        total,
			meter:       meter,
		}
		for i, name := range names {
			if err := b.read(r, name, in.RequestItems[name], plans[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.BatchGetItemOutput{
		Responses:        b.responses,
		UnprocessedKeys:  b.unprocessed,
		ConsumedCapacity: b.cost.consumed(in.ReturnConsumedCapacity),
	}, nil
}

// batchGetTables checks the number of keys, and returns the names of the tables,
// sorted.
func batchGetTables(requests map[string]types.KeysAndAttributes) ([]string, error) {
	if err := checkLength("RequestItems", len(requests), math.MaxInt); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(requests))
	n := 0
	for _, name := range names {
		if err := checkBatchTable(name); err != nil {
			return nil, err
		}
		if err := checkLength("RequestItems."+name+".member.Keys", len(requests[name].Keys), maxBatchGet); err != nil {
			return nil, err
		}
		n += len(requests[name].Keys)
	}
	if n > maxBatchGet {
		return nil, invalid("Too many items requested for the BatchGetItem call")
	}
	return names, nil
}

// checkBatchTable checks a table name that is a key of RequestItems.
func checkBatchTable(name string) error {
	_, err := tableName(&name)
	if _, ok := errors.AsType[*constraintError](err); ok {
		return errConstraint("{"+name+"}", "requestItems",
			"Map keys must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]")
	}
	return err
}

// normalizeKeys checks the keys of each table and makes them canonical.
func normalizeKeys(names []string, requests map[string]types.KeysAndAttributes) ([][]map[string]types.AttributeValue, error) {
	out := make([][]map[string]types.AttributeValue, len(names))
	for i, name := range names {
		for _, raw := range requests[name].Keys {
			if raw == nil {
				return nil, errNullKey()
			}
			key, err := value.NormalizeItem(raw)
			if err != nil {
				return nil, asInvalid(err)
			}
			out[i] = append(out[i], key)
		}
	}
	return out, nil
}

// batchProjections binds the projection of each table, before the tables are
// looked up. A request must not mix legacy parameters and expressions, not even
// for different tables.
func (db *DB) batchProjections(names []string, requests map[string]types.KeysAndAttributes) ([]*expr.Projection, error) {
	var both forms
	out := make([]*expr.Projection, len(names))
	for i, name := range names {
		in := requests[name]
		var err error
		if out[i], err = db.bindProjection(in.ProjectionExpression, in.ExpressionAttributeNames, in.AttributesToGet); err != nil {
			return nil, err
		}
		if in.AttributesToGet != nil {
			both.legacy = []parameter{{"AttributesToGet", true}}
		}
		if in.ProjectionExpression != nil {
			both.expressions = []parameter{{projectionParameter, true}}
		}
	}
	return out, both.check()
}

// planKeys validates the reads of one table.
func (db *DB) planKeys(name string, keys []map[string]types.AttributeValue, projection *expr.Projection) ([]itemRead, error) {
	t, err := db.findTable(&name)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]struct{}, len(keys))
	plans := make([]itemRead, len(keys))
	for i, k := range keys {
		key, err := t.keyOf(k)
		if err != nil {
			return nil, err
		}
		if _, twice := seen[string(key)]; twice {
			return nil, errDuplicateKeys()
		}
		seen[string(key)] = struct{}{}
		plans[i] = itemRead{table: t, key: key, projection: projection}
	}
	return plans, nil
}

func errDuplicateKeys() error {
	return invalid("Provided list of item keys contains duplicates")
}

// batchGet collects the results of a BatchGetItem.
type batchGet struct {
	responses   map[string][]map[string]types.AttributeValue
	unprocessed map[string]types.KeysAndAttributes
	bytes       int
	cost        bill
	left        int // keys that have not been read
	meter       *answer.Meter
}

// read adds the items of one table until the response is full.
func (b *batchGet) read(r store.Reader, name string, in types.KeysAndAttributes, plans []itemRead) error {
	items := make([]map[string]types.AttributeValue, 0, len(plans))
	used := usage{}
	for i := range plans {
		l := &plans[i]
		used.Table = l.table.Name
		item, err := l.read(r)
		if err != nil {
			return err
		}
		if b.bytes+item.Size() > maxBatchResponse {
			in.Keys = in.Keys[i:]
			b.unprocessed[name] = in
			break
		}
		b.bytes += item.Size()
		b.left--
		used.Units += readUnits(item.Size(), aws.ToBool(in.ConsistentRead))
		fields, err := l.project(item, b.meter)
		if err != nil {
			return err
		}
		if fields != nil {
			items = append(items, fields)
		}
	}
	b.responses[name] = items
	b.cost.add(used, 1)
	return nil
}
