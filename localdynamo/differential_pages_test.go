package localdynamo_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// allPages is the sum of all pages of a Query or Scan. Where the page of a Scan
// ends, and how items with equal index keys are ordered, is undefined.
type allPages struct {
	Items        []map[string]types.AttributeValue
	Order        []types.AttributeValue // the range keys of a Query, as returned
	Count        int32
	ScannedCount int32
	Capacity     *types.ConsumedCapacity // of a single page
}

// scanAll returns a call that reads all pages of all segments.
func scanAll(in *dynamodb.ScanInput) apiCall {
	return apiCall{in: in, unordered: true, do: func(ctx context.Context, side operations) (any, error) {
		all := &allPages{}
		page := *in
		for segment := range max(1, aws.ToInt32(in.TotalSegments)) {
			if in.TotalSegments != nil {
				page.Segment = aws.Int32(segment)
			}
			if err := all.scan(ctx, side, page); err != nil {
				return nil, err
			}
		}
		if in.Limit != nil || in.TotalSegments != nil {
			all.Capacity = nil // each page is rounded up
		}
		return all, nil
	}}
}

func (w *allPages) scan(ctx context.Context, side operations, page dynamodb.ScanInput) error {
	for range maxPages {
		out, err := side.Scan(ctx, &page)
		if err != nil {
			return err
		}
		w.add(out.Items, out.Count, out.ScannedCount, out.ConsumedCapacity)
		if out.LastEvaluatedKey == nil {
			return nil
		}
		page.ExclusiveStartKey = out.LastEvaluatedKey
	}
	return fmt.Errorf("scan of table %s: more than %d pages", aws.ToString(page.TableName), maxPages)
}

// maxPages is more than any result of these tests has.
const maxPages = 1000

// queryAll returns a call that reads all pages of a Query on a table or index with
// these keys.
func queryAll(in *dynamodb.QueryInput, keys []keyAttribute) apiCall {
	return apiCall{in: in, unordered: true, do: func(ctx context.Context, side operations) (any, error) {
		all := &allPages{}
		page := *in
		for range maxPages {
			out, err := side.Query(ctx, &page)
			if err != nil {
				return nil, err
			}
			all.add(out.Items, out.Count, out.ScannedCount, out.ConsumedCapacity)
			if out.LastEvaluatedKey == nil {
				return all.inOrderOf(keys, in.Limit), nil
			}
			page.ExclusiveStartKey = out.LastEvaluatedKey
		}
		return nil, fmt.Errorf("query of table %s: more than %d pages", aws.ToString(in.TableName), maxPages)
	}}
}

func (w *allPages) add(items []map[string]types.AttributeValue, count, scanned int32, capacity *types.ConsumedCapacity) {
	w.Items = append(w.Items, items...)
	w.Count += count
	w.ScannedCount += scanned
	w.Capacity = capacity
}

func (w *allPages) inOrderOf(keys []keyAttribute, limit *int32) *allPages {
	if limit != nil {
		w.Capacity = nil // each page is rounded up
	}
	if len(keys) == 2 {
		for _, it := range w.Items {
			w.Order = append(w.Order, it[keys[1].name])
		}
	}
	return w
}
