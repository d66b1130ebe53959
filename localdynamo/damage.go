package localdynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// ErrDamaged means that a stored value is not what was written, as its checksum shows. The error
// of a damaged item, or of a damaged entry of an index, is a *[DamageError]. It wraps ErrCorrupt,
// too. The rest of the file can still be read and written.
var ErrDamaged = store.ErrDamaged

// A DamageError is the error of a read that has met a damaged item, and of a write that depends on
// one. It wraps [ErrDamaged].
type DamageError struct {
	// Table is the name of the item's table. Empty if it is no item: what is damaged then belongs to
	// the engine, such as the definition of a table.
	Table string
	// Index is the name of the index whose entry is damaged; empty if the item itself is.
	Index string
	// Key is the primary key of the item; nil if the key is damaged, too.
	Key map[string]types.AttributeValue

	found *store.Damage
}

func (e *DamageError) Error() string {
	switch {
	case e.Table == "":
		return fmt.Sprintf("a record of the engine is damaged: %v; restore the file from a backup (isr restore)", e.found)
	case e.Key == nil:
		return fmt.Sprintf("an item of table %s is damaged, and so is its key (stored as %x); restore the file from a backup (isr restore), or discard what is damaged (isr compact --discard)", e.Table, e.found.Key)
	case e.Index != "":
		return fmt.Sprintf("the entry of the item %s of table %s in its index %s is damaged: its checksum does not match; restore the file from a backup (isr restore), or put the item again without a condition",
			keyText(e.Key), e.Table, e.Index)
	}
	return fmt.Sprintf("the item %s of table %s is damaged: its checksum does not match; restore the file from a backup (isr restore), or delete or replace the item without a condition", keyText(e.Key), e.Table)
}

// Unwrap returns the damage that the store has found.
func (e *DamageError) Unwrap() error { return e.found }

// DamagedItem returns the table and the primary key of the damaged item; a nil key means that it
// is not known, or that no item is damaged. Programs that do not import this package can ask for it.
func (e *DamageError) DamagedItem() (table string, key map[string]types.AttributeValue) {
	if e.Index != "" {
		return "", nil
	}
	return e.Table, e.Key
}

// keyText returns a key for people: its attributes, sorted by name.
func keyText(key map[string]types.AttributeValue) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		switch v := key[name].(type) {
		case *types.AttributeValueMemberS:
			parts = append(parts, fmt.Sprintf("%s=%.200q", name, v.Value))
		case *types.AttributeValueMemberN:
			parts = append(parts, name+"="+v.Value)
		case *types.AttributeValueMemberB:
			parts = append(parts, fmt.Sprintf("%s=%.200x", name, v.Value))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// withDamage makes the damage that an error reports one of a table and key.
func (db *DB) withDamage(err error) error {
	found, ok := errors.AsType[*store.Damage](err)
	if !ok {
		return err
	}
	return nameDamage(*db.tables.Load(), found)
}

// nameDamage finds out what is damaged.
func nameDamage(tables catalogue, found *store.Damage) *DamageError {
	e := &DamageError{found: found}
	for _, t := range tables {
		if found.Space == t.space() {
			e.Table, e.Key = t.Name, t.decodeKey(found.Key)
			return e
		}
		for _, ix := range t.Indexes {
			if found.Space == ix.space(t) {
				e.Table, e.Index = t.Name, ix.Name
				if rest, ok := ix.skipKey(found.Key); ok {
					e.Key = t.decodeKey(rest)
				}
				return e
			}
		}
	}
	return e
}

// decodeKey returns the attributes of an encoded primary key, or nil if it is none.
func (k *keySchema) decodeKey(encoded []byte) map[string]types.AttributeValue {
	key := make(map[string]types.AttributeValue, 2)
	for _, a := range k.keyAttributes() {
		v, rest, ok := value.DecodeKey(a.Type, encoded)
		if !ok {
			return nil
		}
		key[a.Name], encoded = v, rest
	}
	if len(encoded) > 0 {
		return nil
	}
	return key
}

// skipKey returns what follows the key of an index in the key of an entry: the table's key.
func (k *keySchema) skipKey(encoded []byte) (rest []byte, ok bool) {
	for _, a := range k.keyAttributes() {
		if _, encoded, ok = value.DecodeKey(a.Type, encoded); !ok {
			return nil, false
		}
	}
	return encoded, true
}

// Replace makes replacement the item of a table with this primary key, or deletes the item if
// replacement is nil, provided that the stored item is damaged. It reports whether it was. Index
// entries of the damaged item are removed.
func (db *DB) Replace(ctx context.Context, tableName string, key, replacement map[string]types.AttributeValue) (replaced bool, err error) {
	o := &operation{verb: verbDelete, table: &tableName, key: key}
	if replacement != nil {
		o = &operation{verb: verbPut, table: &tableName, item: replacement}
	}
	m, err := db.plan(o)
	if err != nil {
		return false, err
	}
	err = db.submit(ctx, func(tx *transaction) error {
		e, err := m.evaluate(tx)
		if replaced = err == nil && e.damaged; replaced {
			return m.apply(tx, e)
		}
		return err
	})
	return replaced, err
}

// replacesDamaged reports whether the write does not depend on the stored item.
func (m *mutation) replacesDamaged() bool {
	return m.condition == nil && (m.verb == verbPut || m.verb == verbDelete)
}

// discard deletes a damaged item, with the index entries that belong to it. The tallies, which
// counted it, are counted again.
func (t *table) discard(tx *transaction, key []byte) error {
	if err := tx.Delete(t.space(), key); err != nil {
		return err
	}
	tx.recount(t.space())
	for _, ix := range t.Indexes {
		if err := ix.discardEntries(tx, t, key); err != nil {
			return err
		}
	}
	return nil
}

// discardEntries deletes the entries of an item whose index keys are not known.
func (ix *index) discardEntries(tx *transaction, t *table, key []byte) error {
	var entries [][]byte
	keep := func(entry []byte) {
		if own, ok := ix.skipKey(entry); ok && bytes.Equal(own, key) {
			entries = append(entries, bytes.Clone(entry))
		}
	}
	intact := tx.SkipDamaged(func(d *store.Damage) { keep(d.Key) })
	intact.Range(ix.space(t), nil, nil, false, func(entry, _ []byte) bool {
		keep(entry)
		return true
	})
	for _, entry := range entries {
		if err := tx.Delete(ix.space(t), entry); err != nil {
			return err
		}
	}
	tx.recount(ix.space(t))
	return nil
}
