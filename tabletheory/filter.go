package tabletheory

import (
	"fmt"
	"strings"

	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Filter drops items after DynamoDB has read and charged for them. Several
// filters must all hold.
func (q *Query) Filter(field, operator string, value any) *Query {
	q.addFilter("Filter", expression.Condition.And, field, operator, value)
	return q
}

// OrFilter is an alternative to the filters before it, taken together.
func (q *Query) OrFilter(field, operator string, value any) *Query {
	q.addFilter("OrFilter", expression.Condition.Or, field, operator, value)
	return q
}

// FilterGroup adds the filters that group states, in parentheses.
func (q *Query) FilterGroup(group func(*Query)) *Query {
	q.addGroup("FilterGroup", expression.Condition.And, group)
	return q
}

// OrFilterGroup is an alternative to the filters before it: the filters that
// group states, in parentheses.
func (q *Query) OrFilterGroup(group func(*Query)) *Query {
	q.addGroup("OrFilterGroup", expression.Condition.Or, group)
	return q
}

// join joins a filter to those before it.
type join func(before, filter expression.Condition) expression.Condition

func (q *Query) addFilter(call string, join join, field, operator string, value any) {
	q.called |= callFilter
	path := q.path(call, field)
	if path == nil {
		return
	}
	if err := canCompare(path, operator); err != nil {
		q.setErrorf("%s: %w", call, err)
		return
	}
	condition, err := q.expressions.Compare(path, operator, value)
	if err != nil {
		q.setErrorf("%s of %s: %w", call, field, err)
		return
	}
	q.filter = join(q.filter, condition)
	q.filtered = append(q.filtered, path.Field)
}

func (q *Query) addGroup(call string, join join, group func(*Query)) {
	q.called |= callFilter
	if q.err != nil {
		return
	}
	if group == nil {
		q.setErrorf("%s takes a function, not nil", call)
		return
	}
	inner := newQuery(q.ctx, q.target)
	inner.partial = true
	inner.expressions = q.expressions
	group(inner)
	other := inner.called &^ callFilter
	switch {
	case inner.err != nil:
		q.err = inner.err
	case other != 0:
		q.setErrorf("%s: %v in a group, which takes only filters: call it on the query itself", call, other)
	case inner.filter.IsEmpty():
		q.setErrorf("%s: the group has no filter", call)
	}
	q.filter = join(q.filter, inner.filter)
	q.filtered = append(q.filtered, inner.filtered...)
}

// canCompare returns an error for a comparison with an encrypted field, which
// DynamoDB cannot read. It can only check whether the attribute exists.
func canCompare(path *model.Path, operator string) error {
	if !path.Field.Encrypted {
		return nil
	}
	op := strings.ToUpper(strings.TrimSpace(operator))
	if len(path.Steps) == 1 && (op == "EXISTS" || op == "NOT_EXISTS") {
		return nil
	}
	return fmt.Errorf("field %s is encrypted and DynamoDB cannot compare it: only EXISTS and NOT_EXISTS work", path.Field.Name)
}
