package localdynamo

import (
	"bytes"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

// maxSegments is the maximum of TotalSegments.
const maxSegments = 1_000_000

// Scan reads a table or one segment of it, up to 1 MB per page, each page from
// one snapshot. All items of a hash key are in the same segment. The first parallel Scan
// of a table or index stores how it is split.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	in = orEmpty(in)
	p, err := db.planScan(in)
	if err != nil {
		return nil, err
	}
	lo, hi, err := db.scanRange(ctx, in, p)
	if err != nil {
		return nil, err
	}
	if err := db.readPage(ctx, p, lo, hi, false); err != nil {
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

func (db *DB) planScan(in *dynamodb.ScanInput) (*page, error) {
	p := &page{}
	shared := &readParams{
		table: in.TableName, index: in.IndexName, selected: in.Select, projection: in.ProjectionExpression, attributes: in.AttributesToGet,
		consistent: in.ConsistentRead, limit: in.Limit, start: in.ExclusiveStartKey, capacity: in.ReturnConsumedCapacity,
	}
	if err := p.checkFields(shared); err != nil {
		return nil, withLegacyWording(err)
	}
	if err := checkSegments(in.Segment, in.TotalSegments); err != nil {
		return nil, err
	}
	if err := checkScanForms(in); err != nil {
		return nil, err
	}
	if err := db.bindScan(in, p); err != nil {
		return nil, withLegacyWording(err)
	}
	s, err := db.source(in.TableName, in.IndexName)
	if err != nil {
		return nil, err
	}
	if err := p.setSource(s, shared); err != nil {
		return nil, err
	}
	return p, nil
}

// scanRange returns the keys [lo, hi) that a Scan has yet to read.
func (db *DB) scanRange(ctx context.Context, in *dynamodb.ScanInput, p *page) (lo, hi []byte, err error) {
	start, err := p.startPosition(p.start)
	if err != nil {
		return nil, nil, err
	}
	lo, hi, err = db.segment(ctx, p.source, aws.ToInt32(in.Segment), aws.ToInt32(in.TotalSegments))
	if err != nil || start == nil {
		return lo, hi, err
	}
	if bytes.Compare(start, lo) < 0 || hi != nil && bytes.Compare(start, hi) >= 0 {
		return nil, nil, invalid("%s: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d",
			startKeyInvalid, *in.TotalSegments, *in.Segment)
	}
	return append(start, 0), hi, nil // from the smallest key after it
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
