package localdynamo

import (
	"context"
	"hash/fnv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxSegments is the maximum of TotalSegments.
const maxSegments = 1_000_000

// Scan reads a table or one segment of it, up to 1 MB per page, each page from
// one snapshot. All items of a hash key are in the same segment.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	in = orEmpty(in)
	p, from, err := db.planScan(in)
	if err != nil {
		return nil, err
	}
	if err := db.readPage(ctx, p, from, nil, false); err != nil {
		return nil, err
	}
	return &dynamodb.ScanOutput{
		Items:            p.items,
		Count:            int32(p.count),
		ScannedCount:     int32(p.scanned),
		LastEvaluatedKey: p.lastEvaluated,
		ConsumedCapacity: p.usage().consumed(in.ReturnConsumedCapacity),
	}, nil
}

func (db *DB) planScan(in *dynamodb.ScanInput) (p *page, from []byte, err error) {
	p = &page{}
	shared := &readParams{
		table: in.TableName, index: in.IndexName, selected: in.Select, projection: in.ProjectionExpression, attributes: in.AttributesToGet,
		consistent: in.ConsistentRead, limit: in.Limit, start: in.ExclusiveStartKey, capacity: in.ReturnConsumedCapacity,
	}
	if err := p.checkFields(shared); err != nil {
		return nil, nil, withLegacyWording(err)
	}
	if err := checkSegments(in.Segment, in.TotalSegments); err != nil {
		return nil, nil, err
	}
	if err := checkScanForms(in); err != nil {
		return nil, nil, err
	}
	if err := db.bindScan(in, p); err != nil {
		return nil, nil, withLegacyWording(err)
	}
	s, err := db.source(in.TableName, in.IndexName)
	if err != nil {
		return nil, nil, err
	}
	if err := p.setSource(s, shared); err != nil {
		return nil, nil, err
	}
	if from, err = p.startPosition(p.start); err != nil {
		return nil, nil, err
	}
	if from != nil {
		from = append(from, 0) // the smallest key after it
	}
	if aws.ToInt32(in.TotalSegments) > 1 {
		p.inSegment = p.key().segment(uint32(*in.Segment), uint32(*in.TotalSegments))
		if p.start != nil && !p.inSegment(value.View(value.Encode(nil, p.start))) {
			return nil, nil, invalid("%s: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d",
				startKeyInvalid, *in.TotalSegments, *in.Segment)
		}
	}
	return p, from, nil
}

func (db *DB) bindScan(in *dynamodb.ScanInput, p *page) error {
	scope, err := expr.NewScope(&db.expressions, in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	if err != nil {
		return asInvalid(err)
	}
	if p.projection, err = scope.Projection(in.ProjectionExpression); err != nil {
		return asInvalid(err)
	}
	if p.filter, err = scope.Condition(expr.KindFilter, in.FilterExpression); err != nil {
		return asInvalid(err)
	}
	if err := p.bindLegacy(in.AttributesToGet, expr.KindScanFilter, in.ScanFilter, in.ConditionalOperator); err != nil {
		return err
	}
	return asInvalid(scope.CheckUnused())
}

func checkSegments(segment, total *int32) error {
	switch {
	case segment == nil && total == nil:
		return nil
	case total == nil:
		return invalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case segment == nil:
		return invalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *total < 1 || *total > maxSegments:
		return invalid("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value between 1 and %d", *total, maxSegments)
	case *segment < 0 || *segment >= *total:
		return invalid("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *segment, *total)
	}
	return nil
}

// segment returns a function that reports whether an item is in segment part of
// total. Segments are assigned by a hash of the hash key, so reading one scans
// the whole table.
func (k *keySchema) segment(part, total uint32) func(value.Item) bool {
	return func(item value.Item) bool {
		v, err := item.Lookup(k.Hash.Name)
		if err != nil || v == nil {
			return part == 0 // one segment must read, and report, a damaged item
		}
		key, err := value.AppendKey(nil, v)
		if err != nil {
			return part == 0
		}
		h := fnv.New32a()
		h.Write(key)
		return h.Sum32()%total == part
	}
}
