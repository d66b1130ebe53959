package tabletheory

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/tabletheory/envelope"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// seal encrypts the encrypted fields among attributes, in place, for the item
// with this key, which may be the item itself. Those of one call share a data
// key. NULL is encrypted like any value: that there is none may be the secret.
func (t *target) seal(ctx context.Context, key, attributes model.Item) error {
	names := t.encryptedIn(attributes)
	if names == nil {
		return nil
	}
	place, err := t.place(key)
	if err != nil {
		return err
	}
	return envelope.Seal(ctx, t.keys, place, attributes, names...)
}

// open decrypts the encrypted fields of an item that was read, in place. The
// item must have the key of its table, even if only other fields were selected.
// A field that is stored in plain is an error: whoever could store it so need
// not have had a key.
func (t *target) open(ctx context.Context, item model.Item) error {
	names := t.encryptedIn(item)
	if names == nil {
		return nil
	}
	place, err := t.place(item)
	if err != nil {
		return err
	}
	return envelope.Open(ctx, t.keys, place, item, names...)
}

// encryptedIn returns the attributes of encrypted fields that there are.
func (t *target) encryptedIn(attributes model.Item) []string {
	var names []string
	for _, field := range t.model.Encrypted {
		if _, ok := attributes[field.Attribute]; ok {
			names = append(names, field.Attribute)
		}
	}
	return names
}

// place is where the item with this key is stored.
func (t *target) place(key model.Item) (envelope.Location, error) {
	place := envelope.Location{Table: t.table}
	for _, field := range []*model.Field{t.model.Hash, t.model.Range} {
		if field == nil {
			continue
		}
		v, ok := key[field.Attribute]
		if !ok {
			return place, fmt.Errorf("its encrypted fields are bound to its key, which lacks %s", field.Name)
		}
		place.Key = append(place.Key, envelope.KeyAttribute{Name: field.Attribute, Value: v})
	}
	return place, nil
}
