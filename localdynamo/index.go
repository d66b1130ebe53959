package localdynamo

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// index is the definition of a secondary index. Like a table it is immutable.
type index struct {
	Name string
	ID   int // names the space of its entries; never reused within the table
	keySchema
	Global     bool // otherwise local: its hash key is the table's
	Projection types.ProjectionType
	Include    []string  `json:",omitempty"` // non-key attributes of an INCLUDE projection
	Read       int64     `json:",omitempty"` // provisioned units of a global index, not enforced
	Write      int64     `json:",omitempty"`
	Warm       warmUnits `json:",omitzero"`
	Filling    bool      `json:",omitempty"` // being backfilled: writes maintain it, reads are refused
}

// entry is an item's entry in an index. Its key is the index key followed by
// the table key, because several items may share an index key.
type entry struct {
	key  []byte // nil: the item is not in the index
	item value.Item
}

func (ix *index) space(t *table) string { return t.space() + "/" + strconv.Itoa(ix.ID) }

// projects reports whether entries hold the attribute.
func (ix *index) projects(t *table, name string) bool {
	return ix.Projection == types.ProjectionTypeAll || slices.Contains(ix.Include, name) || ix.has(name) || t.has(name)
}

// entryOf returns the index entry of an item with this table key. There is no
// entry if the item lacks a key attribute of the index, or if the item is older
// than the index and its attribute cannot be an index key. With projection ALL
// the entry shares memory with the item.
func (ix *index) entryOf(t *table, key []byte, s *document) (entry, error) {
	if s.item == "" {
		return entry{}, nil
	}
	fields := make(map[string]types.AttributeValue, 2)
	for _, a := range ix.keyAttributes() {
		v := s.Attribute(a.Name)
		if v == nil || value.Type(v) != string(a.Type) || keySizeOf(v) == 0 {
			return entry{}, s.err
		}
		fields[a.Name] = v
	}
	at, err := ix.encodeKey(fields)
	if err != nil {
		return entry{}, nil // too long to be a key
	}
	projected := ix.project(t, s, fields)
	return entry{key: append(at, key...), item: projected}, s.err
}

// project returns the projected item. fields holds the index's key attributes;
// project adds the others to it.
func (ix *index) project(t *table, s *document, fields map[string]types.AttributeValue) value.Item {
	if ix.Projection == types.ProjectionTypeAll {
		return s.item
	}
	names := ix.Include
	for _, a := range t.keyAttributes() {
		names = append(slices.Clip(names), a.Name)
	}
	for _, name := range names {
		if v := s.Attribute(name); v != nil {
			fields[name] = v
		}
	}
	return value.View(value.Encode(nil, fields))
}

// checkIndexKeys refuses an item whose attribute has a type or size that an
// index key cannot have. If the attribute is absent, the item is not indexed.
func (t *table) checkIndexKeys(item expr.Document) error {
	for _, ix := range t.Indexes {
		for _, part := range []struct {
			attributes []attribute
			limit      int
		}{{ix.hashes(), maxHashSize}, {ix.ranges(), maxRangeSize}} {
			before := 0
			for _, a := range part.attributes {
				v := item.Attribute(a.Name)
				if v == nil {
					continue
				}
				if !t.has(a.Name) {
					if err := ix.checkKey(a, v, before, part.limit); err != nil {
						return err
					}
				}
				before += keySizeOf(v)
			}
		}
	}
	return nil
}

// checkKey checks the value of a key attribute; see appendKey.
func (ix *index) checkKey(a attribute, v types.AttributeValue, before, limit int) error {
	if value.Type(v) != string(a.Type) {
		return invalid("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", a.Name, a.Type, value.Type(v), ix.Name)
	}
	switch size, kind := keySize(v); {
	case size == 0:
		return errEmptyIndexKey(ix, a, kind)
	case before+size > limit:
		return errKeyTooLong(limit)
	}
	return nil
}

// checkAssignedKeys refuses an update that sets an index key to an empty value.
// It covers only assignments that do not depend on the item.
func (t *table) checkAssignedKeys(u *expr.Update) error {
	for _, ix := range t.Indexes {
		for _, a := range ix.keyAttributes() {
			v := u.Assigned(a.Name)
			if v == nil || value.Type(v) != string(a.Type) {
				continue
			}
			if size, kind := keySize(v); size == 0 {
				return invalid("One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty %s value.", kind)
			}
		}
	}
	return nil
}

func errEmptyIndexKey(ix *index, a attribute, kind string) error {
	return invalid("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s", kind, ix.Name, a.Name)
}

// indexChange is the effect of a write to one item on one index.
type indexChange struct {
	index         *index
	before, after entry
}

// indexChanges returns how the indexes change when the item under key does.
func (t *table) indexChanges(key []byte, old, now value.Item) ([]indexChange, error) {
	if len(t.Indexes) == 0 {
		return nil, nil
	}
	before, after := &document{item: old}, &document{item: now}
	if len(t.Indexes) > 1 {
		names := t.indexedNames()
		before.load(names)
		after.load(names)
	}
	out := make([]indexChange, 0, len(t.Indexes))
	for _, ix := range t.Indexes {
		r := indexChange{index: ix}
		var err error
		if r.before, err = ix.entryOf(t, key, before); err != nil {
			return nil, err
		}
		if r.after, err = ix.entryOf(t, key, after); err != nil {
			return nil, err
		}
		if !bytes.Equal(r.before.key, r.after.key) || r.before.item != r.after.item {
			out = append(out, r)
		}
	}
	return out, nil
}

// indexedNames returns the names of the attributes that the entries of the table's
// indexes consist of, sorted.
func (t *table) indexedNames() []string {
	var names []string
	attributes := t.keyAttributes()
	for _, ix := range t.Indexes {
		attributes = append(attributes, ix.keyAttributes()...)
		names = append(names, ix.Include...)
	}
	for _, a := range attributes {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// moved reports whether the entry is added, removed, or gets another key.
func (r *indexChange) moved() bool { return !bytes.Equal(r.before.key, r.after.key) }

func (r *indexChange) apply(tx *transaction, t *table) error {
	space := r.index.space(t)
	old := r.before.item
	if r.index.Filling && r.before.key != nil && tx.Get(space, r.before.key) == nil {
		old = "" // the backfill has not reached this item yet
	}
	tx.updateTally(space, old, r.after.item)
	if r.before.key != nil && r.moved() {
		if err := tx.Delete(space, r.before.key); err != nil {
			return err
		}
	}
	if r.after.key == nil {
		return nil
	}
	return tx.Put(space, r.after.key, []byte(r.after.item))
}

// units returns the write units: one write, or a delete and a put if the entry
// gets another key.
func (r *indexChange) units() float64 {
	if r.moved() && r.before.key != nil && r.after.key != nil {
		return writeUnits(r.before.item.Size(), 0) + writeUnits(0, r.after.item.Size())
	}
	return writeUnits(r.before.item.Size(), r.after.item.Size())
}

func (ix *index) describeGlobal(t *table, n tally) types.GlobalSecondaryIndexDescription {
	d := types.GlobalSecondaryIndexDescription{
		IndexName:      aws.String(ix.Name),
		IndexArn:       aws.String(t.arn() + "/index/" + ix.Name),
		IndexStatus:    types.IndexStatusActive,
		KeySchema:      ix.describe(),
		Projection:     ix.describeProjection(),
		ItemCount:      &n.items,
		IndexSizeBytes: &n.bytes,
		ProvisionedThroughput: &types.ProvisionedThroughputDescription{
			NumberOfDecreasesToday: aws.Int64(0),
			ReadCapacityUnits:      aws.Int64(ix.Read),
			WriteCapacityUnits:     aws.Int64(ix.Write),
		},
	}
	d.WarmThroughput = ix.describeWarm(t)
	if ix.Filling {
		d.IndexStatus, d.Backfilling = types.IndexStatusCreating, aws.Bool(true)
	}
	return d
}

func (ix *index) describeLocal(t *table, n tally) types.LocalSecondaryIndexDescription {
	return types.LocalSecondaryIndexDescription{
		IndexName:      aws.String(ix.Name),
		IndexArn:       aws.String(t.arn() + "/index/" + ix.Name),
		KeySchema:      ix.describe(),
		Projection:     ix.describeProjection(),
		ItemCount:      &n.items,
		IndexSizeBytes: &n.bytes,
	}
}

func (ix *index) describeProjection() *types.Projection {
	return &types.Projection{ProjectionType: ix.Projection, NonKeyAttributes: slices.Clone(ix.Include)}
}
