package tabletheory

import (
	"context"
	"iter"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// reading is a Query or a Scan as it is sent, page by page. It does not change:
// several goroutines may fetch pages of it.
type reading struct {
	*Query
	op         string     // for errors
	partition  model.Item // the partition key of a Query, for errors
	key        *string    // the KeyConditionExpression of a Query; nil: a Scan
	projection *string
	only       types.Select // COUNT, or empty
	start      model.Item   // where the first page begins; nil: at the beginning
}

// page is one answer.
type page struct {
	items   []model.Item
	count   int
	scanned int
	next    model.Item // empty: there are no more
}

// readQuery is the Query of what Where states.
func (q *Query) readQuery(op string) (*reading, error) {
	keys, err := q.keyConditions(op)
	if err != nil {
		return nil, err
	}
	return q.readKeys(op, keys)
}

func (q *Query) readKeys(op string, keys keyConditions) (*reading, error) {
	if err := q.checkQuery(); err != nil {
		return nil, err
	}
	start, err := q.startOf(keys.hash)
	if err != nil {
		return nil, err
	}
	expression, err := q.keyExpression(keys)
	if err != nil {
		return nil, err
	}
	hash, _ := q.keyFields()
	return &reading{
		Query: q, op: op, partition: model.Item{hash.Attribute: keys.hash},
		key: &expression, projection: q.projection(), start: start,
	}, nil
}

// readScan is the Scan of everything.
func (q *Query) readScan(op string) (*reading, error) {
	if err := q.checkConsistency(); err != nil {
		return nil, err
	}
	return &reading{Query: q, op: op, projection: q.projection()}, nil
}

func (q *Query) checkQuery() error {
	hash, sort := q.keyFields()
	for _, field := range q.filtered {
		if field == hash || field == sort {
			return invalid("Filter(%q): it is a key of %s, and DynamoDB filters by nothing that is: use Where", field.Name, q.source())
		}
	}
	if q.order != nil && q.order != sort {
		return invalid("OrderBy(%q): %s is sorted by its sort key alone%s", q.order.Name, q.source(), q.indexesWith(q.order))
	}
	return q.checkConsistency()
}

func (q *Query) checkConsistency() error {
	if q.consistent && q.index != nil && !q.index.Local {
		return invalid("ConsistentRead: a global index such as %s has only eventual consistency: leave it out, or read the table", q.index.Name)
	}
	return nil
}

// pages fetches page after page as they are consumed, no more items than Limit
// in all.
func (r *reading) pages(ctx context.Context) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		start, left := r.start, r.limit
		for fetched := 0; ; fetched++ {
			p, err := r.fetch(ctx, start, r.pageSize(left, fetched), nil)
			if err != nil {
				yield(page{}, err)
				return
			}
			if r.limit > 0 {
				p.truncate(left)
				left -= p.count
			}
			if !yield(p, nil) || len(p.next) == 0 || (r.limit > 0 && left == 0) {
				return
			}
			start = p.next
		}
	}
}

// truncate leaves out what is beyond a number of items.
func (p *page) truncate(n int) {
	p.count = min(p.count, n)
	p.items = p.items[:min(len(p.items), n)]
}

// firstPage is how many items the first page looks at, at least, where a filter
// may drop some.
const firstPage = 8

// pageSize is how many items a page should look at where so many are still
// wanted; nil: as many as DynamoDB likes. Nobody knows how many a filter drops:
// each page is twice as large as the one before it, so that no more than about
// twice of what is needed is read and paid for, in few pages.
func (r *reading) pageSize(left, fetched int) *int32 {
	if r.limit == 0 || r.filter.IsEmpty() {
		return limitOf(left)
	}
	size := max(left, firstPage)
	for range fetched {
		size = min(2*size, math.MaxInt32)
	}
	return limitOf(size)
}

// limitOf is a number of items as DynamoDB takes it; 0 is none.
func limitOf(n int) *int32 {
	if n == 0 {
		return nil
	}
	return aws.Int32(int32(min(n, math.MaxInt32)))
}

// segment is a part of a scan.
type segment struct {
	number, total int32
}

// fetch gets one page. A nil limit is as many as DynamoDB likes, and a nil
// segment is all of them.
func (r *reading) fetch(ctx context.Context, start model.Item, limit *int32, part *segment) (page, error) {
	if r.key != nil {
		return r.fetchQuery(ctx, start, limit)
	}
	in := &dynamodb.ScanInput{
		TableName: &r.table, IndexName: r.indexName(), ConsistentRead: r.consistency(),
		FilterExpression: r.filterExpression(), ProjectionExpression: r.projection, Select: r.only,
		ExpressionAttributeNames: r.expressions.Names(), ExpressionAttributeValues: r.expressions.Values(),
		ExclusiveStartKey: start, Limit: limit,
	}
	if part != nil {
		in.Segment, in.TotalSegments = &part.number, &part.total
	}
	out, err := r.api.Scan(ctx, in)
	if err != nil {
		return page{}, r.failure(r.op, nil, err)
	}
	return page{out.Items, int(out.Count), int(out.ScannedCount), out.LastEvaluatedKey}, nil
}

func (r *reading) fetchQuery(ctx context.Context, start model.Item, limit *int32) (page, error) {
	out, err := r.api.Query(ctx, &dynamodb.QueryInput{
		TableName: &r.table, IndexName: r.indexName(), ConsistentRead: r.consistency(),
		KeyConditionExpression: r.key, ScanIndexForward: aws.Bool(!r.descending),
		FilterExpression: r.filterExpression(), ProjectionExpression: r.projection, Select: r.only,
		ExpressionAttributeNames: r.expressions.Names(), ExpressionAttributeValues: r.expressions.Values(),
		ExclusiveStartKey: start, Limit: limit,
	})
	if err != nil {
		return page{}, r.failure(r.op, r.partition, r.blameCursor(err))
	}
	return page{out.Items, int(out.Count), int(out.ScannedCount), out.LastEvaluatedKey}, nil
}

func (q *Query) indexName() *string {
	if q.index == nil {
		return nil
	}
	return &q.index.Name
}

func (q *Query) consistency() *bool {
	if !q.consistent {
		return nil
	}
	return &q.consistent
}

func (q *Query) filterExpression() *string {
	if q.filter.IsEmpty() {
		return nil
	}
	return aws.String(q.filter.String())
}
