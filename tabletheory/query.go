package tabletheory

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Query reads and writes the items of one model. [DB.Model] returns one. A
// Query is not safe for concurrent use and runs once.
//
// Methods that return the Query can be chained. The Query keeps the first
// error; the method that ends the chain returns it and sends nothing.
//
// Fields are named by the Go name or by the attribute name. A path into a
// document (address.city, lines[2].price) begins with either. Values are Go
// values, encoded like the field that they are compared with or stored in.
//
// The operators are =, !=, <>, <, <=, >, >=, BETWEEN (a slice of two values),
// IN (a slice of at most 100), BEGINS_WITH, CONTAINS, NOT_CONTAINS, EXISTS,
// NOT_EXISTS (both with the value nil) and ATTRIBUTE_TYPE, in any case.
type Query struct {
	*target // nil if Model failed; the error is in err
	ctx     context.Context
	err     error // the first error; nothing is sent if there is one
	called  calls // the calls that built the query
	partial bool  // it is an argument of a callback, and cannot be executed
	used    bool  // it was executed

	expressions *expression.Builder // &own, or the outer query's in a filter group
	own         expression.Builder
	where       []constraint
	index       *model.Index // nil: the table
	filter      expression.Condition
	filtered    []*model.Field // in filter
	conditions  []Precondition // of a write
	old         reflect.Value  // destination of ReturnOld; invalid: none

	limit      int
	order      *model.Field // of OrderBy
	descending bool
	selected   []*model.Path
	consistent bool
	cursor     string
}

// constraint is a condition that Where states on a key attribute.
type constraint struct {
	path     *model.Path
	operator string // in upper case
	value    any
}

// calls is a set of the methods that built a query. A method that executes the
// query refuses those that it does not support: no call is ignored silently.
type calls uint

const (
	callWhere calls = 1 << iota
	callIndex
	callFilter // and OrFilter, FilterGroup, OrFilterGroup
	callLimit
	callOrderBy
	callSelect
	callConsistentRead
	callCursor
	callCondition // WithCondition, WithConditionExpression, IfExists, IfNotExists
	callReturnOld
)

// String returns the name of the first call in the set.
func (c calls) String() string {
	for i, name := range []string{"Where", "Index", "Filter", "Limit", "OrderBy", "Select", "ConsistentRead", "Cursor", "a condition", "ReturnOld"} {
		if c&(1<<i) != 0 {
			return name
		}
	}
	return "nothing"
}

// hint returns what to do instead of the first call in the set.
func (c calls) hint() string {
	switch {
	case c&callWhere != 0:
		return "it has its key already; use Filter to drop items"
	case c&callFilter != 0:
		return "filters are for reads; use WithCondition for writes"
	case c&callCondition != 0:
		return "conditions are for writes of one item; use Filter for reads"
	case c&callReturnOld != 0:
		return "it is for CreateOrUpdate and Delete; use UpdateBuilder with ReturnValues ALL_OLD to read the item before an update"
	}
	return "remove it"
}

// Model begins a read or a write of items of v's model. v is a struct with
// theorydb tags or a pointer to one. Writes take the item or its key from v. If
// v is a pointer, Create, CreateOrUpdate and Update store times and the version
// in it.
func (db *DB) Model(v any) *Query {
	t, err := db.target(v)
	q := newQuery(db.ctx, t)
	q.err = err
	return q
}

func newQuery(ctx context.Context, t *target) *Query {
	q := &Query{target: t, ctx: ctx}
	q.expressions = &q.own
	return q
}

// setErrorf records an [ErrInvalidQuery], unless there is an error already.
func (q *Query) setErrorf(format string, args ...any) {
	if q.err == nil {
		q.err = invalid(format, args...)
	}
}

// invalid returns an [ErrInvalidQuery].
func invalid(format string, args ...any) error {
	return fmt.Errorf("tabletheory: %w: "+format, append([]any{ErrInvalidQuery}, args...)...)
}

// begin starts op, which executes the query and supports the calls in takes. It
// returns the first error.
func (q *Query) begin(op string, takes calls) error {
	switch refused := q.called &^ takes; {
	case q.err != nil:
	case q.partial:
		q.setErrorf("%s inside a callback: call it on the query itself", op)
	case q.used:
		q.setErrorf("%s of a query that was executed already: begin a new one with Model", op)
	case refused != 0:
		q.setErrorf("%s of %v does not support %v: %s", op, q.model.Type, refused, refused.hint())
	}
	q.used = true
	return q.err
}

// Where states a condition on a key attribute of the table or of the index. A
// read turns these conditions into a GetItem or a Query; without the partition
// key it fails, because only [Query.Scan] scans.
//
// For Update, UpdateBuilder and Delete, Where gives the key of the item if the
// key fields of the model are empty: every key attribute, with =.
func (q *Query) Where(field, operator string, value any) *Query {
	q.called |= callWhere
	if path := q.path("Where", field); path != nil {
		q.where = append(q.where, constraint{path: path, operator: strings.ToUpper(strings.TrimSpace(operator)), value: value})
	}
	return q
}

// Index reads a secondary index instead of the table.
func (q *Query) Index(name string) *Query {
	q.called |= callIndex
	if q.err != nil {
		return q
	}
	index, ok := q.model.Index(name)
	if !ok {
		q.setErrorf("Index: %v has no index %q%s", q.model.Type, name, q.indexNames())
		return q
	}
	q.index = index
	return q
}

// indexNames lists the indexes of the model for an error.
func (q *Query) indexNames() string {
	if len(q.model.Indexes) == 0 {
		return "; declare one with the tag index: or lsi:"
	}
	names := make([]string, len(q.model.Indexes))
	for i, index := range q.model.Indexes {
		names[i] = index.Name
	}
	return ", only " + strings.Join(names, ", ")
}

// Limit bounds the number of items returned over all pages; 0, the default, is
// no bound. With [Query.AllPaginated] it bounds the number of items that
// DynamoDB evaluates for the page.
func (q *Query) Limit(n int) *Query {
	q.called |= callLimit
	if n < 0 {
		q.setErrorf("Limit(%d): must be at least 0 (no limit)", n)
	}
	q.limit = n
	return q
}

// OrderBy sorts by the sort key of the table or index, ASC (the default) or
// DESC. DynamoDB sorts by nothing else.
func (q *Query) OrderBy(field, direction string) *Query {
	q.called |= callOrderBy
	path := q.path("OrderBy", field)
	if path == nil {
		return q
	}
	switch strings.ToUpper(strings.TrimSpace(direction)) {
	case "ASC", "":
		q.descending = false
	case "DESC":
		q.descending = true
	default:
		q.setErrorf("OrderBy(%q, %q): the direction must be ASC or DESC", field, direction)
	}
	if len(path.Steps) > 1 {
		q.setErrorf("OrderBy(%q): DynamoDB sorts only by the sort key", field)
	}
	q.order = path.Field
	return q
}

// ConsistentRead makes the read strongly consistent, at twice the price. Global
// secondary indexes do not support it.
func (q *Query) ConsistentRead() *Query {
	q.called |= callConsistentRead
	q.consistent = true
	return q
}

// Cursor continues after an earlier page; see [Page]. The empty cursor starts
// at the beginning. A cursor is safe in a URL and is bound to its model, table,
// index, partition key and direction: used with others, or damaged, it is an
// [ErrInvalidQuery].
func (q *Query) Cursor(cursor string) *Query {
	if cursor != "" {
		q.called |= callCursor
	}
	q.cursor = cursor
	return q
}

// path resolves a field for a call; it returns nil after an error.
func (q *Query) path(call, field string) *model.Path {
	if q.err != nil {
		return nil
	}
	path, err := q.model.Path(field)
	if err != nil {
		q.setErrorf("%s: %w", call, err)
		return nil
	}
	return path
}
