package tabletheory

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/tabletheory/core"
	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// query is the [core.Query] of a DB.
type query struct {
	core.Query // stub: makes the package compile until T2 and T3 have written all methods; the last of them removes it

	*target
	ctx context.Context
	err error // the first mistake; nothing is sent if there is one

	expressions *expression.Builder // shared with the groups within
	where       []constraint
	index       *model.Index // nil: the table
	filter      expression.Condition
	condition   expression.Condition // of a write

	limit      int
	order      string // field, if OrderBy was called
	descending bool
	selected   []*model.Path
	consistent bool
	cursor     string
}

// constraint is what Where states of a key attribute.
type constraint struct {
	path     *model.Path
	operator string
	value    any
}

var _ core.Query = (*query)(nil)

// Model begins a read or a write of items of v's model: a struct with theorydb
// tags, or a pointer to one. Writes take the item, or its key, from v; Create,
// CreateOrUpdate and Update store times and the version in it, if it is a
// pointer.
func (db *DB) Model(v any) core.Query {
	q := &query{ctx: db.ctx, expressions: &expression.Builder{}}
	q.target, q.err = db.target(v)
	return q
}

// mistake keeps the first mistake.
func (q *query) mistake(format string, args ...any) {
	if q.err == nil {
		q.err = fmt.Errorf("tabletheory: %w: "+format, append([]any{ErrInvalidQuery}, args...)...)
	}
}
