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
// mistake; the method that ends the chain returns it and sends nothing.
//
// Fields are named by the Go name or by the attribute name. A path into a
// document (address.city, lines[2].price) begins with either. Values are Go
// values, encoded like the field that they are compared with or stored in.
//
// The operators are =, !=, <>, <, <=, >, >=, BETWEEN (a slice of two values),
// IN (a slice of at most 100), BEGINS_WITH, CONTAINS, NOT_CONTAINS, EXISTS,
// NOT_EXISTS (both with the value nil) and ATTRIBUTE_TYPE, in any case.
type Query struct {
	*target // nil if err is that there is none
	ctx     context.Context
	err     error // the first mistake; nothing is sent if there is one
	called  calls // what it was built up of
	within  bool  // it states what another query asked for, and cannot be carried out itself
	used    bool  // it was carried out

	expressions *expression.Builder // own, or in a group that of the query around it
	own         expression.Builder
	where       []constraint
	index       *model.Index // nil: the table
	filter      expression.Condition
	filtered    []*model.Field // that filter is about
	conditions  []Precondition // of a write
	old         reflect.Value  // that a write reads what was there into; invalid: none

	limit      int
	order      *model.Field // that OrderBy was given
	descending bool
	selected   []*model.Path
	consistent bool
	cursor     string
}

// constraint is what Where states of a key attribute.
type constraint struct {
	path     *model.Path
	operator string // in capitals
	value    any
}

// calls is a set of the calls that build up a query. Those that end the chain
// refuse the ones that they have no use for: a call that is not understood is
// never passed over in silence.
type calls uint

const (
	callWhere calls = 1 << iota
	callIndex
	callFilter // OrFilter, FilterGroup and OrFilterGroup as well
	callLimit
	callOrderBy
	callSelect
	callConsistentRead
	callCursor
	callCondition // WithCondition, WithConditionExpression, IfExists and IfNotExists
	callReturnOld
)

// String names the first of the calls.
func (c calls) String() string {
	for i, name := range []string{"Where", "Index", "Filter", "Limit", "OrderBy", "Select", "ConsistentRead", "Cursor", "a condition", "ReturnOld"} {
		if c&(1<<i) != 0 {
			return name
		}
	}
	return "nothing"
}

// instead tells what to do about the first of the calls where it is refused.
func (c calls) instead() string {
	switch {
	case c&callWhere != 0:
		return "the key is given without it; for what a read should leave out there is Filter"
	case c&callFilter != 0:
		return "filters are for reads; what must hold for a write is stated with WithCondition"
	case c&callCondition != 0:
		return "conditions are for writes of one item; what a read should leave out is stated with Filter"
	case c&callReturnOld != 0:
		return "it is for CreateOrUpdate and Delete; what was there before an update is read by UpdateBuilder, with ReturnValues ALL_OLD"
	}
	return "leave it out"
}

// Model begins a read or a write of items of v's model: a struct with theorydb
// tags, or a pointer to one. Writes take the item, or its key, from v; Create,
// CreateOrUpdate and Update store times and the version in it, if it is a
// pointer.
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

// mistake keeps the first mistake.
func (q *Query) mistake(format string, args ...any) {
	if q.err == nil {
		q.err = invalid(format, args...)
	}
}

// invalid is an [ErrInvalidQuery].
func invalid(format string, args ...any) error {
	return fmt.Errorf("tabletheory: %w: "+format, append([]any{ErrInvalidQuery}, args...)...)
}

// begin begins op, what ends the chain, which takes only some of the calls that
// built up the query. It returns the first mistake that was made.
func (q *Query) begin(op string, takes calls) error {
	switch refused := q.called &^ takes; {
	case q.err != nil:
	case q.within:
		q.mistake("%s inside of what only states a part of a query: call it on the query itself", op)
	case q.used:
		q.mistake("%s of a query that was carried out already: begin a new one with Model", op)
	case refused != 0:
		q.mistake("%s of %v takes no %v: %s", op, q.model.Type, refused, refused.instead())
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
		q.mistake("Index: %v has no index %q%s", q.model.Type, name, q.indexNames())
		return q
	}
	q.index = index
	return q
}

// indexNames lists the indexes there are instead.
func (q *Query) indexNames() string {
	if len(q.model.Indexes) == 0 {
		return "; the tags index: and lsi: of its fields make one"
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
		q.mistake("Limit(%d): a limit is 0, which is none, or more", n)
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
		q.mistake("OrderBy(%q, %q): the direction is ASC or DESC", field, direction)
	}
	if len(path.Steps) > 1 {
		q.mistake("OrderBy(%q): nothing can be sorted by but the sort key", field)
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
	if cursor != "" { // or it is the beginning, where every query begins
		q.called |= callCursor
	}
	q.cursor = cursor
	return q
}

// path resolves a field for a call; nil after a mistake.
func (q *Query) path(call, field string) *model.Path {
	if q.err != nil {
		return nil
	}
	path, err := q.model.Path(field)
	if err != nil {
		q.mistake("%s: %w", call, err)
		return nil
	}
	return path
}
