package tabletheory

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/tabletheory/envelope"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// seal encrypts the encrypted fields among attributes in place, with one data
// key. key is the item's key, or the whole item. NULL is encrypted too, because
// the absence of a value may be the secret.
func (t *target) seal(ctx context.Context, key, attributes model.Item) error {
	names := t.encryptedIn(attributes)
	if names == nil {
		return nil
	}
	location, err := t.location(key)
	if err != nil {
		return err
	}
	return envelope.Seal(ctx, t.keys, location, attributes, names...)
}

// open decrypts the encrypted fields of an item in place. The item must include
// its table key, even if only other fields were selected. A field stored in
// plain is an error, because its writer need not have had a key.
func (t *target) open(ctx context.Context, item model.Item) error {
	names := t.encryptedIn(item)
	if names == nil {
		return nil
	}
	location, err := t.location(item)
	if err != nil {
		return err
	}
	return envelope.Open(ctx, t.keys, location, item, names...)
}

// encryptedIn returns the names of the encrypted fields among attributes.
func (t *target) encryptedIn(attributes model.Item) []string {
	var names []string
	for _, field := range t.model.Encrypted {
		if _, ok := attributes[field.Attribute]; ok {
			names = append(names, field.Attribute)
		}
	}
	return names
}

// location returns the location that the encryption binds the item to.
func (t *target) location(key model.Item) (envelope.Location, error) {
	location := envelope.Location{Table: t.table}
	for _, field := range []*model.Field{t.model.Hash, t.model.Range} {
		if field == nil {
			continue
		}
		v, ok := key[field.Attribute]
		if !ok {
			return location, fmt.Errorf("encrypted fields are bound to the item's key, which lacks %s", field.Name)
		}
		location.Key = append(location.Key, envelope.KeyAttribute{Name: field.Attribute, Value: v})
	}
	return location, nil
}
