package tabletheory

import (
	"context"
	"fmt"
)

// CreateTable makes the table of a model, and returns when it can be used: with
// the model's keys, on-demand billing, its secondary indexes, which hold all
// attributes, and TTL on the ttl field if there is one. If other models share
// the table, it gets their indexes too; what they all say must agree. A table of
// that name is an error that wraps the SDK's *types.ResourceInUseException; see
// [DB.EnsureTable].
//
// AWS takes some seconds: bound the wait by ctx. The client must be a [TableAPI];
// else the error is ErrUnsupported.
func (db *DB) CreateTable(ctx context.Context, model any, others ...any) error {
	w, err := db.wanted("CreateTable", model, others)
	if err != nil {
		return err
	}
	_, err = w.api.CreateTable(ctx, w.request())
	if err == nil {
		err = w.ensure(ctx)
	}
	if err != nil {
		return fmt.Errorf("tabletheory: create the table %s: %w", w.name, err)
	}
	return nil
}

// wantedTable is a table to be brought into shape.
type wantedTable struct {
	*tableShape
	api TableAPI
}

// wanted prepares a method of the DB that is about the table of models.
func (m *mapper) wanted(method string, v any, others []any) (*wantedTable, error) {
	api, ok := m.api.(TableAPI)
	if !ok {
		return nil, fmt.Errorf("tabletheory: %s: %w: %T lacks methods of TableAPI", method, ErrUnsupported, m.api)
	}
	shape, err := m.shapeOf(v, others)
	if err != nil {
		return nil, err
	}
	return &wantedTable{shape, api}, nil
}
