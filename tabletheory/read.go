package tabletheory

import (
	"context"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Page describes a page that [Query.AllPaginated] has read.
type Page struct {
	Count        int    // items returned
	ScannedCount int    // items evaluated, before filters
	NextCursor   string // for [Query.Cursor]; empty on the last page
	HasMore      bool   // there may be more items
}

// callsOfQuery are the calls that a Query supports.
const callsOfQuery = callWhere | callIndex | callFilter | callLimit | callOrderBy | callSelect | callConsistentRead | callCursor

// First reads one item into dest, a pointer to a struct. If there is none, it
// returns [ErrItemNotFound] and leaves dest unchanged.
func (q *Query) First(dest any) error {
	if err := q.begin("First", callsOfQuery); err != nil {
		return err
	}
	into, err := q.destStruct("First", dest)
	if err != nil {
		return err
	}
	keys, err := q.keyConditions("First")
	if err != nil {
		return err
	}
	key, whole, err := q.primaryKey(keys)
	switch {
	case err != nil:
		return err
	case whole && q.filter.IsEmpty() && q.cursor == "" && q.order == nil:
		return q.getItem(key, into)
	}
	q.limit = 1
	r, err := q.keyPager("First", keys)
	if err != nil {
		return err
	}
	return r.first(into)
}

// getItem reads the item with a key.
func (q *Query) getItem(key model.Item, into reflect.Value) error {
	item, err := q.get(q.ctx, &dynamodb.GetItemInput{
		Key: key, ConsistentRead: q.consistency(),
		ProjectionExpression: q.projection(), ExpressionAttributeNames: q.expressions.Names(),
	})
	if err != nil {
		return err
	}
	return q.decode(q.ctx, item, into)
}

// get returns an item, or ErrItemNotFound.
func (t *target) get(ctx context.Context, in *dynamodb.GetItemInput) (model.Item, error) {
	in.TableName = &t.table
	out, err := t.api.GetItem(ctx, in)
	if err != nil {
		return nil, t.failure("get", in.Key, err)
	}
	if len(out.Item) == 0 {
		return nil, t.failure("get", in.Key, ErrItemNotFound)
	}
	return out.Item, nil
}

// first reads the first item, skipping pages that a filter has emptied.
func (r *pager) first(into reflect.Value) error {
	for p, err := range r.pages(r.ctx) {
		if err != nil {
			return err
		}
		if len(p.items) > 0 {
			return r.decode(r.ctx, p.items[0], into)
		}
	}
	return r.failure(r.op, r.partition, ErrItemNotFound)
}

// All reads all items into dest, a pointer to a slice of structs or of pointers
// to them. It replaces the slice; on an error dest is unchanged.
func (q *Query) All(dest any) error {
	if err := q.begin("All", callsOfQuery); err != nil {
		return err
	}
	r, err := q.queryPager("query")
	if err != nil {
		return err
	}
	return r.all("All", dest)
}

// Scan reads the whole table or index into dest, a pointer to a slice, and
// applies the filters.
func (q *Query) Scan(dest any) error {
	if err := q.begin("Scan", callsOfScan); err != nil {
		return err
	}
	r, err := q.scanPager("scan")
	if err != nil {
		return err
	}
	return r.all("Scan", dest)
}

func (r *pager) all(call string, dest any) error {
	l, err := r.destList(call, dest)
	if err != nil {
		return err
	}
	for p, err := range r.pages(r.ctx) {
		if err != nil {
			return err
		}
		if err := l.add(r.ctx, r.Query, p.items); err != nil {
			return err
		}
	}
	l.store()
	return nil
}

// AllPaginated reads one page into dest, a pointer to a slice; see [Query.All].
func (q *Query) AllPaginated(dest any) (*Page, error) {
	if err := q.begin("AllPaginated", callsOfQuery); err != nil {
		return nil, err
	}
	l, err := q.destList("AllPaginated", dest)
	if err != nil {
		return nil, err
	}
	r, err := q.queryPager("query")
	if err != nil {
		return nil, err
	}
	return r.one(l)
}

// one reads the first page.
func (r *pager) one(l *list) (*Page, error) {
	p, err := r.fetch(r.ctx, r.start, limitOf(r.limit), nil)
	if err != nil {
		return nil, err
	}
	next, err := r.encodeCursor(p.next)
	if err != nil {
		return nil, err
	}
	if err := l.add(r.ctx, r.Query, p.items); err != nil {
		return nil, err
	}
	l.store()
	return &Page{Count: p.count, ScannedCount: p.scanned, NextCursor: next, HasMore: next != ""}, nil
}

// Count counts what All would read. The items are not transferred, but DynamoDB
// charges as if they were.
func (q *Query) Count() (int64, error) {
	if err := q.begin("Count", callsOfQuery&^callSelect); err != nil {
		return 0, err
	}
	r, err := q.queryPager("count")
	if err != nil {
		return 0, err
	}
	r.only = types.SelectCount
	var count int64
	for p, err := range r.pages(r.ctx) {
		if err != nil {
			return 0, err
		}
		count += int64(p.count)
	}
	return count, nil
}
