package localdynamo_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// whole is what all pages of a Query or Scan say together. Where a page of a
// Scan ends is each side's own affair, and so is the order in which items come
// that an index orders alike.
type allPages struct {
	Items        []map[string]types.AttributeValue
	Order        []types.AttributeValue // the range keys of a Query, as they came
	Count        int32
	ScannedCount int32
	Capacity     *types.ConsumedCapacity // of a single page
}

// scanAll makes an inquiry that reads all pages of all segments.
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
	return fmt.Errorf("a scan of %s did not end", aws.ToString(page.TableName))
}

// maxPages is more than any table of these tests has.
const maxPages = 1000

// queryAll makes an inquiry that reads all pages of a query that keys order.
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
		return nil, fmt.Errorf("a query of %s did not end", aws.ToString(in.TableName))
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
