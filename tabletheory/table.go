package tabletheory

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Table is the table of one model, with the model as a type parameter: a
// type-safe form of [DB.Model]. It is safe for concurrent use.
//
// Methods that take a T as a key use only its key fields, except that Delete
// compares the version if it is not 0.
type Table[T any] struct {
	zero       *target
	consistent bool
}

// NewTable returns the table of T, a struct with theorydb tags. TableName is
// called once, on a zero T. If T is not a model, the error is an
// [ErrInvalidModel].
func NewTable[T any](db *DB) (*Table[T], error) {
	zero, err := db.target(new(T))
	if err != nil {
		return nil, err
	}
	if zero.model.Type != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("tabletheory: %w: the type of a Table must be a struct, not the pointer %v", ErrInvalidModel, reflect.TypeFor[T]())
	}
	return &Table[T]{zero: zero}, nil
}

// Consistent returns the same table with strongly consistent Get, Query and
// Scan, at twice the price.
func (t *Table[T]) Consistent() *Table[T] { return &Table[T]{zero: t.zero, consistent: true} }

// Get returns the item with a partition key and, if the table has one, a sort
// key. If there is none, the error is [ErrItemNotFound].
func (t *Table[T]) Get(ctx context.Context, hash any, sort ...any) (T, error) {
	var item T
	key, err := t.key(hash, sort)
	if err != nil {
		return item, err
	}
	in := &dynamodb.GetItemInput{Key: key}
	if t.consistent {
		in.ConsistentRead = &t.consistent
	}
	stored, err := t.zero.get(ctx, in)
	if err == nil {
		err = t.zero.decode(ctx, stored, reflect.ValueOf(&item).Elem())
	}
	if err != nil {
		return *new(T), err
	}
	return item, nil
}

func (t *Table[T]) key(hash any, sort []any) (model.Item, error) {
	md := t.zero.model
	sortKeys := 0
	if md.Range != nil {
		sortKeys = 1
	}
	if len(sort) != sortKeys {
		return nil, invalid("the key of %v has %d values, got %d", md.Type, 1+sortKeys, 1+len(sort))
	}
	key := make(model.Item, 2)
	err := setKey(key, md.Hash, hash)
	if err == nil && sortKeys == 1 {
		err = setKey(key, md.Range, sort[0])
	}
	return key, err
}

func setKey(key model.Item, field *model.Field, value any) error {
	av, err := keyAttribute(field.Path(), value)
	if err != nil {
		return invalid("%w", err)
	}
	key[field.Attribute] = av
	return nil
}

// Put stores a whole item and replaces a stored one, like
// [Query.CreateOrUpdate]; with [IfNotExists] it is like [Query.Create]. The
// stored times and version are set in the item.
func (t *Table[T]) Put(ctx context.Context, item *T, conditions ...Precondition) error {
	if item == nil {
		return invalid("Put needs a non-nil *%v", t.zero.model.Type)
	}
	return t.write(ctx, item, conditions).CreateOrUpdate()
}

// Update applies the changes that change states to the item with the key of a T
// and returns the updated item. Like [UpdateBuilder] it creates a missing item,
// unless [IfExists] prevents it.
func (t *Table[T]) Update(ctx context.Context, key T, change func(*UpdateBuilder), conditions ...Precondition) (T, error) {
	if change == nil {
		return *new(T), invalid("Update takes a function, not nil")
	}
	builder := t.write(ctx, &key, conditions).updateBuilder()
	builder.executor = "Table.Update"
	change(builder)
	builder.executor = ""
	var item T
	if err := builder.ExecuteWithResult(&item); err != nil {
		return *new(T), err
	}
	return item, nil
}

// Delete deletes the item with the key of a T. A missing item is not an error,
// unless a condition makes it one.
func (t *Table[T]) Delete(ctx context.Context, key T, conditions ...Precondition) error {
	return t.write(ctx, &key, conditions).Delete()
}

func (t *Table[T]) write(ctx context.Context, item *T, conditions []Precondition) *Query {
	return newQuery(ctx, t.zero.of(reflect.ValueOf(item).Elem())).require(conditions...)
}

// of returns the target of another struct of the model.
func (t *target) of(value reflect.Value) *target {
	return &target{mapper: t.mapper, model: t.model, table: t.table, value: value}
}

// Query reads the items that build selects with Where and optionally Index,
// Filter, Limit, OrderBy, Select, ConsistentRead and Cursor. Pages are fetched
// as they are consumed; breaking out of the loop ends the query. An error is
// yielded last, with a zero T. Each iteration starts a new query.
func (t *Table[T]) Query(ctx context.Context, build func(*Query)) iter.Seq2[T, error] {
	return t.items(ctx, build, func(q *Query) (*pager, error) {
		if err := q.begin("Query", callsOfQuery); err != nil {
			return nil, err
		}
		return q.queryPager("query")
	})
}

// Scan reads all items, like Query. build, which may be nil, can call Index,
// Filter, Limit, Select and ConsistentRead.
func (t *Table[T]) Scan(ctx context.Context, build func(*Query)) iter.Seq2[T, error] {
	return t.items(ctx, build, func(q *Query) (*pager, error) {
		if err := q.begin("Scan", callsOfScan); err != nil {
			return nil, err
		}
		return q.scanPager("scan")
	})
}

func (t *Table[T]) items(ctx context.Context, build func(*Query), begin func(*Query) (*pager, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := newQuery(ctx, t.zero)
		q.consistent = t.consistent
		if build != nil {
			q.partial = true // build must not execute it
			build(q)
			q.partial = false
		}
		r, err := begin(q)
		if err != nil {
			yield(*new(T), err)
			return
		}
		each(ctx, r, yield)
	}
}

// each yields the items of a pager.
func each[T any](ctx context.Context, r *pager, yield func(T, error) bool) {
	var item T // reused; the consumer gets copies
	into := reflect.ValueOf(&item).Elem()
	for p, err := range r.pages(ctx) {
		if err != nil {
			yield(*new(T), err)
			return
		}
		for _, stored := range p.items {
			into.SetZero()
			if err := r.decode(ctx, stored, into); err != nil {
				yield(*new(T), err)
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}
