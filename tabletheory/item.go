package tabletheory

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MarshalItem returns the item that stores a model, for requests outside of this
// package. It does not change the version and times of the model. Encrypted
// fields are encrypted for the table that TableName returns; a model without
// such fields needs no TableName.
func (db *DB) MarshalItem(ctx context.Context, v any) (map[string]types.AttributeValue, error) {
	t, err := db.targetWithoutTable(v)
	if err != nil {
		return nil, err
	}
	item, err := t.model.Encode(t.value)
	if err != nil {
		return nil, fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
	}
	if err := t.seal(ctx, item, item); err != nil {
		return nil, fmt.Errorf("tabletheory: marshal %s: %w", t.describe(t.model.KeyOf(item)), err)
	}
	return item, nil
}

// UnmarshalItem decodes an item from elsewhere, such as an export of a table,
// into dest, a pointer to a struct of a model. On an error dest is unchanged.
// Encrypted fields are decrypted for the table that TableName returns. The item
// is unchanged.
func (db *DB) UnmarshalItem(ctx context.Context, item map[string]types.AttributeValue, dest any) error {
	t, err := db.targetWithoutTable(dest)
	if err != nil {
		return err
	}
	if !t.value.CanSet() {
		return invalid("UnmarshalItem needs a *%v, got %s", t.model.Type, describe(dest))
	}
	if len(t.model.Encrypted) > 0 {
		item = maps.Clone(item) // decrypted in place
	}
	err = t.open(ctx, item)
	if err == nil {
		err = t.model.Decode(item, t.value)
	}
	if err != nil {
		return fmt.Errorf("tabletheory: unmarshal %s: %w", t.describe(t.model.KeyOf(item)), err)
	}
	return nil
}
