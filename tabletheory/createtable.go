package tabletheory

import (
	"context"
	"fmt"
)

// CreateTable creates the table of a model and returns when it is ready. The
// table has the model's keys, on-demand billing, the model's secondary indexes,
// which project all attributes, and TTL on the ttl field if there is one. It
// also gets the indexes of the other models that share it; the models must agree
// on what they have in common. If the table exists, the error wraps the SDK's
// *types.ResourceInUseException; see [DB.EnsureTable].
//
// AWS takes a few seconds: bound the wait with ctx. The client must be a
// [TableAPI]; otherwise the error is ErrUnsupported.
func (db *DB) CreateTable(ctx context.Context, model any, others ...any) error {
	w, err := db.provisioner("CreateTable", model, others)
	if err != nil {
		return err
	}
	_, err = w.api.CreateTable(ctx, w.request())
	if err == nil {
		err = w.ensure(ctx)
	}
	if err != nil {
		return fmt.Errorf("tabletheory: create table %s: %w", w.name, err)
	}
	return nil
}

// provisioner creates, updates and deletes the table that a spec describes.
type provisioner struct {
	*tableSpec
	api TableAPI
}

// provisioner returns the provisioner of the table of models, for a method of
// DB.
func (m *mapper) provisioner(method string, v any, others []any) (*provisioner, error) {
	api, ok := m.api.(TableAPI)
	if !ok {
		return nil, fmt.Errorf("tabletheory: %s: %w: %T is not a TableAPI", method, ErrUnsupported, m.api)
	}
	spec, err := m.specOf(v, others)
	if err != nil {
		return nil, err
	}
	return &provisioner{spec, api}, nil
}
