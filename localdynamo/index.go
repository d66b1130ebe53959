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

// index is a secondary index: a second order of a table's items, with as much
// of each item as its projection says. Like a table it is immutable.
type index struct {
	Name string
	ID   int // names the space of its entries, never used twice in a table
	keySchema
	Global     bool // otherwise local: its hash key is the table's
	Projection types.ProjectionType
	Include    []string `json:",omitempty"` // with INCLUDE, besides the keys
	Read       int64    `json:",omitempty"` // provisioned units of a global index; they limit nothing
	Write      int64    `json:",omitempty"`
	Filling    bool     `json:",omitempty"` // writes maintain it, but older items may be missing: not to be read
}

// entry is what an index holds of one item. Its key is the item's key in the
// index followed by that in the table, since several items may share the
// first.
type entry struct {
	key  []byte // nil: the item is not in the index
	item value.Item
}

func (ix *index) space(t *table) string { return t.space() + "/" + strconv.Itoa(ix.ID) }

// projects reports whether entries hold the attribute.
func (ix *index) projects(t *table, name string) bool {
	return ix.Projection == types.ProjectionTypeAll || slices.Contains(ix.Include, name) || ix.has(name) || t.has(name)
}

// entryOf returns the entry of an item with the given key in the table. An
// item without the index's key attributes has none; neither has one, older
// than the index, whose attributes cannot be its key. The entry of a whole
// item shares memory with it.
func (ix *index) entryOf(t *table, key []byte, item value.Item) (entry, error) {
	if item == "" {
		return entry{}, nil
	}
	fields := make(map[string]types.AttributeValue, 2)
	for _, a := range ix.keyAttributes() {
		v, err := item.Lookup(a.Name)
		if err != nil {
			return entry{}, damaged(err)
		}
		if v == nil || ix.checkKey(a, v) != nil {
			return entry{}, nil
		}
		fields[a.Name] = v
	}
	at, err := ix.encodeKey(fields)
	if err != nil {
		return entry{}, nil // too long to be a key
	}
	projected, err := ix.project(t, item, fields)
	return entry{key: append(at, key...), item: projected}, err
}

// project cuts an item down. Fields holds the index's key attributes, and is
// added to.
func (ix *index) project(t *table, item value.Item, fields map[string]types.AttributeValue) (value.Item, error) {
	if ix.Projection == types.ProjectionTypeAll {
		return item, nil
	}
	names := ix.Include
	for _, a := range t.keyAttributes() {
		names = append(slices.Clip(names), a.Name)
	}
	for _, name := range names {
		v, err := item.Lookup(name)
		if err != nil {
			return "", damaged(err)
		}
		if v != nil {
			fields[name] = v
		}
	}
	return value.View(value.Encode(nil, fields)), nil
}

// checkIndexKeys refuses a new item whose attributes cannot be a key of an index.
// An attribute that is absent only keeps the item out of it.
func (t *table) checkIndexKeys(item expr.Document) error {
	for _, ix := range t.Indexes {
		for _, a := range ix.keyAttributes() {
			if v := item.Attribute(a.Name); v != nil && !t.has(a.Name) {
				if err := ix.checkKey(a, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (ix *index) checkKey(a attribute, v types.AttributeValue) error {
	if value.Type(v) != string(a.Type) {
		return invalid("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", a.Name, a.Type, value.Type(v), ix.Name)
	}
	limit := maxRangeSize
	if a == ix.Hash {
		limit = maxHashSize
	}
	switch size, kind := keySize(v); {
	case size == 0:
		return errEmptyIndexKey(ix, a, kind)
	case size > limit:
		return errKeyTooLong(limit)
	}
	return nil
}

// checkAssigned refuses an update that makes the key of an index empty, as can
// be seen without the item.
func (t *table) checkAssigned(u *expr.Update) error {
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

// reindexing is what a write to one item means to one index.
type reindexing struct {
	index    *index
	old, now entry
}

// reindex works out what a change of the item under key means to the indexes.
func (t *table) reindex(key []byte, old, now value.Item) ([]reindexing, error) {
	if len(t.Indexes) == 0 {
		return nil, nil
	}
	out := make([]reindexing, 0, len(t.Indexes))
	for _, ix := range t.Indexes {
		r := reindexing{index: ix}
		var err error
		if r.old, err = ix.entryOf(t, key, old); err != nil {
			return nil, err
		}
		if r.now, err = ix.entryOf(t, key, now); err != nil {
			return nil, err
		}
		if !bytes.Equal(r.old.key, r.now.key) || r.old.item != r.now.item {
			out = append(out, r)
		}
	}
	return out, nil
}

// moved reports whether the entry comes, goes, or changes its place.
func (r *reindexing) moved() bool { return !bytes.Equal(r.old.key, r.now.key) }

func (r *reindexing) apply(tx *transaction, t *table) error {
	space := r.index.space(t)
	old := r.old.item
	if r.index.Filling && r.old.key != nil && tx.Get(space, r.old.key) == nil {
		old = "" // of an item that is older than the index, and not yet in it
	}
	tx.count(space, old, r.now.item)
	if r.old.key != nil && r.moved() {
		if err := tx.Delete(space, r.old.key); err != nil {
			return err
		}
	}
	if r.now.key == nil {
		return nil
	}
	return tx.Put(space, r.now.key, []byte(r.now.item))
}

// units is the price: one write, or two if the entry leaves one place for
// another.
func (r *reindexing) units() float64 {
	if r.moved() && r.old.key != nil && r.now.key != nil {
		return writeUnits(r.old.item.Size(), 0) + writeUnits(0, r.now.item.Size())
	}
	return writeUnits(r.old.item.Size(), r.now.item.Size())
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
