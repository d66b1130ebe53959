package tabletheory

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MarshalItem returns the item that a model is stored as, for requests that the
// caller makes himself. Its version and times are those that the model has: it
// is writes that set them. Encrypted fields are encrypted, for the table that
// TableName says; a model without such fields need not have one.
func (db *DB) MarshalItem(ctx context.Context, v any) (map[string]types.AttributeValue, error) {
	t, err := db.untabled(v)
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

// UnmarshalItem reads an item that the caller has from elsewhere, such as his own
// request or an export of a table, into dest, a pointer to a struct of a model,
// as every read does; after an error dest is as it was. Encrypted fields are
// decrypted, as of the table that TableName says. The item is not changed.
func (db *DB) UnmarshalItem(ctx context.Context, item map[string]types.AttributeValue, dest any) error {
	t, err := db.untabled(dest)
	if err != nil {
		return err
	}
	if !t.value.CanSet() {
		return invalid("UnmarshalItem reads into a *%v, not %s", t.model.Type, describe(dest))
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
