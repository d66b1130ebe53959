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

// pager sends a Query or a Scan page by page. It is immutable: goroutines may
// fetch pages concurrently.
type pager struct {
	*Query
	op         string     // for errors
	partition  model.Item // the partition key of a Query, for errors
	key        *string    // the KeyConditionExpression of a Query; nil: a Scan
	projection *string
	only       types.Select // COUNT, or empty
	start      model.Item   // the position before the first page; nil: the beginning
}

// page is one reply.
type page struct {
	items   []model.Item
	count   int
	scanned int
	next    model.Item // empty on the last page
}

// queryPager returns the pager of a Query with the key conditions of Where.
func (q *Query) queryPager(op string) (*pager, error) {
	keys, err := q.keyConditions(op)
	if err != nil {
		return nil, err
	}
	return q.keyPager(op, keys)
}

func (q *Query) keyPager(op string, keys keyConditions) (*pager, error) {
	if err := q.checkQuery(); err != nil {
		return nil, err
	}
	start, err := q.decodeCursor(keys.hash)
	if err != nil {
		return nil, err
	}
	expression, err := q.keyExpression(keys)
	if err != nil {
		return nil, err
	}
	hash, _ := q.keyFields()
	return &pager{
		Query: q, op: op, partition: model.Item{hash.Attribute: keys.hash},
		key: &expression, projection: q.projection(), start: start,
	}, nil
}

// scanPager returns the pager of a Scan.
func (q *Query) scanPager(op string) (*pager, error) {
	if err := q.checkConsistency(); err != nil {
		return nil, err
	}
	return &pager{Query: q, op: op, projection: q.projection()}, nil
}

func (q *Query) checkQuery() error {
	hash, sort := q.keyFields()
	for _, field := range q.filtered {
		if field == hash || field == sort {
			return invalid("Filter(%q): it is a key of %s, which DynamoDB cannot filter by: use Where", field.Name, q.source())
		}
	}
	if q.order != nil && q.order != sort {
		return invalid("OrderBy(%q): %s can only be sorted by its sort key%s", q.order.Name, q.source(), q.indexesWith(q.order))
	}
	return q.checkConsistency()
}

func (q *Query) checkConsistency() error {
	if q.consistent && q.index != nil && !q.index.Local {
		return invalid("ConsistentRead: global index %s is only eventually consistent: remove the call, or read the table", q.index.Name)
	}
	return nil
}

// pages fetches pages as they are consumed, with at most Limit items in total.
func (r *pager) pages(ctx context.Context) iter.Seq2[page, error] {
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

// truncate drops the items after the first n.
func (p *page) truncate(n int) {
	p.count = min(p.count, n)
	p.items = p.items[:min(len(p.items), n)]
}

// firstPage is the minimum size of the first page if a filter may drop items.
const firstPage = 8

// pageSize returns how many items the next page should evaluate if left items
// are still needed; nil: DynamoDB decides. With a filter, each page is twice as
// large as the one before: this reads and pays for at most about twice what is
// needed, in few pages.
func (r *pager) pageSize(left, fetched int) *int32 {
	if r.limit == 0 || r.filter.IsEmpty() {
		return limitOf(left)
	}
	size := max(left, firstPage)
	for range fetched {
		size = min(2*size, math.MaxInt32)
	}
	return limitOf(size)
}

// limitOf returns a limit for a request; 0 is no limit.
func limitOf(n int) *int32 {
	if n == 0 {
		return nil
	}
	return aws.Int32(int32(min(n, math.MaxInt32)))
}

// segment is a part of a parallel scan.
type segment struct {
	number, total int32
}

// fetch fetches one page. A nil limit lets DynamoDB decide; a nil part is the
// whole scan.
func (r *pager) fetch(ctx context.Context, start model.Item, limit *int32, part *segment) (page, error) {
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

func (r *pager) fetchQuery(ctx context.Context, start model.Item, limit *int32) (page, error) {
	out, err := r.api.Query(ctx, &dynamodb.QueryInput{
		TableName: &r.table, IndexName: r.indexName(), ConsistentRead: r.consistency(),
		KeyConditionExpression: r.key, ScanIndexForward: aws.Bool(!r.descending),
		FilterExpression: r.filterExpression(), ProjectionExpression: r.projection, Select: r.only,
		ExpressionAttributeNames: r.expressions.Names(), ExpressionAttributeValues: r.expressions.Values(),
		ExclusiveStartKey: start, Limit: limit,
	})
	if err != nil {
		return page{}, r.failure(r.op, r.partition, r.cursorError(err))
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
