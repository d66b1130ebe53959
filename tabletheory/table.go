package tabletheory

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Table is the table of one model, with the model as a type: what
// [DB.Model] does, without destinations to declare, and checked by the compiler.
// It is safe for concurrent use.
//
// Methods that take a T as a key look at its key fields alone, but for the
// version: Delete compares it if it is not 0.
type Table[T any] struct {
	zero       *target
	consistent bool
}

// NewTable returns the table of T, a struct with theorydb tags. TableName is
// asked once, of a zero T. It is an [ErrInvalidModel] if T is no model.
func NewTable[T any](db *DB) (*Table[T], error) {
	zero, err := db.target(new(T))
	if err != nil {
		return nil, err
	}
	if zero.model.Type != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("tabletheory: %w: a Table is of a struct, not of the pointer %v", ErrInvalidModel, reflect.TypeFor[T]())
	}
	return &Table[T]{zero: zero}, nil
}

// Consistent returns the same table, whose Get, Query and Scan read with strong
// consistency, at twice the price.
func (t *Table[T]) Consistent() *Table[T] { return &Table[T]{zero: t.zero, consistent: true} }

// Get returns the item with a partition key and, if the table has one, a sort
// key. That there is none is [ErrItemNotFound].
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
	wanted := 0 // sort keys
	if md.Range != nil {
		wanted = 1
	}
	if len(sort) != wanted {
		return nil, invalid("the key of %v has %d values, and %d were given", md.Type, 1+wanted, 1+len(sort))
	}
	key := make(model.Item, 2)
	err := setKey(key, md.Hash, hash)
	if err == nil && wanted == 1 {
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

// Put stores a whole item, whatever was there, as CreateOrUpdate of
// [Query] does; with [IfNotExists] it is a Create. The item gets the times
// and the version that are stored.
func (t *Table[T]) Put(ctx context.Context, item *T, conditions ...Precondition) error {
	if item == nil {
		return invalid("Put takes a *%v that is not nil", t.zero.model.Type)
	}
	return t.write(ctx, item, conditions).CreateOrUpdate()
}

// Update makes the changes that change states to the item with the key of a T,
// and returns the item as it is afterwards. As with [UpdateBuilder] the
// item is made if there is none: demand [IfExists] where that is not meant.
func (t *Table[T]) Update(ctx context.Context, key T, change func(*UpdateBuilder), conditions ...Precondition) (T, error) {
	if change == nil {
		return *new(T), invalid("Update takes a function that states the changes, not nil")
	}
	builder := t.write(ctx, &key, conditions).updateBuilder()
	builder.within = "Table.Update"
	change(builder)
	builder.within = ""
	var item T
	if err := builder.ExecuteWithResult(&item); err != nil {
		return *new(T), err
	}
	return item, nil
}

// Delete deletes the item with the key of a T. That there is none is no error,
// unless a condition says so.
func (t *Table[T]) Delete(ctx context.Context, key T, conditions ...Precondition) error {
	return t.write(ctx, &key, conditions).Delete()
}

func (t *Table[T]) write(ctx context.Context, item *T, conditions []Precondition) *Query {
	return newQuery(ctx, t.zero.of(reflect.ValueOf(item).Elem())).demand(conditions...)
}

// of is the target of another struct of the model.
func (t *target) of(value reflect.Value) *target {
	return &target{mapper: t.mapper, model: t.model, table: t.table, value: value}
}

// Query reads the items that build describes by Where and, if it likes, Index,
// Filter, Limit, OrderBy, Select, ConsistentRead and Cursor of [Query].
// Pages are fetched as they are consumed; a consumer that stops ends the
// reading. An error is yielded last, with a zero T. Each iteration reads anew.
func (t *Table[T]) Query(ctx context.Context, build func(*Query)) iter.Seq2[T, error] {
	return t.items(ctx, build, func(q *Query) (*reading, error) {
		if err := q.begin("Query", callsOfQuery); err != nil {
			return nil, err
		}
		return q.readQuery("query")
	})
}

// Scan reads all items, as Query does. build, which may be nil, takes Index,
// Filter, Limit, Select and ConsistentRead.
func (t *Table[T]) Scan(ctx context.Context, build func(*Query)) iter.Seq2[T, error] {
	return t.items(ctx, build, func(q *Query) (*reading, error) {
		if err := q.begin("Scan", callsOfScan); err != nil {
			return nil, err
		}
		return q.readScan("scan")
	})
}

func (t *Table[T]) items(ctx context.Context, build func(*Query), begin func(*Query) (*reading, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := newQuery(ctx, t.zero)
		q.consistent = t.consistent
		if build != nil {
			q.within = true // what ends a chain is not for build
			build(q)
			q.within = false
		}
		r, err := begin(q)
		if err != nil {
			yield(*new(T), err)
			return
		}
		each(ctx, r, yield)
	}
}

// each yields the items of a reading.
func each[T any](ctx context.Context, r *reading, yield func(T, error) bool) {
	var item T // one for all of them, of which consumers get copies
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
