package localdynamo

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// Limits of secondary indexes.
const (
	maxGlobal    = 20  // global indexes per table
	maxLocal     = 5   // local indexes per table
	maxIncluded  = 20  // NonKeyAttributes per index
	maxProjected = 100 // NonKeyAttributes of all indexes of a table
)

// indexRequest is the definition of an index in a request.
type indexRequest struct {
	name       *string
	schema     []types.KeySchemaElement
	projection *types.Projection
	throughput *types.ProvisionedThroughput
	warm       *types.WarmThroughput
	global     bool
}

func localRequest(l *types.LocalSecondaryIndex) *indexRequest {
	return &indexRequest{name: l.IndexName, schema: l.KeySchema, projection: l.Projection}
}

func globalRequest(g *types.GlobalSecondaryIndex) *indexRequest {
	return &indexRequest{g.IndexName, g.KeySchema, g.Projection, g.ProvisionedThroughput, g.WarmThroughput, true}
}

// setIndexes adds the indexes of a new table. checkFields has passed for each.
func (t *table) setIndexes(global []types.GlobalSecondaryIndex, local []types.LocalSecondaryIndex, definitions []types.AttributeDefinition) error {
	switch {
	case local != nil && len(local) == 0:
		return invalid("One or more parameter values were invalid: List of LocalSecondaryIndexes is empty")
	case len(local) > 0 && t.Range == nil:
		return invalid("One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case global != nil && len(global) == 0:
		return invalid("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	}
	if err := checkIndexCounts(len(global), len(local)); err != nil { // before they are compared with each other
		return err
	}
	requests := make([]*indexRequest, 0, len(global)+len(local))
	for _, l := range local {
		requests = append(requests, localRequest(&l))
	}
	for _, g := range global {
		requests = append(requests, globalRequest(&g))
	}
	for _, request := range requests {
		if _, err := t.addIndex(request, definitions); err != nil {
			return err
		}
	}
	return t.checkIndexLimits()
}

// checkFields checks each member of the request separately. member is its path.
func (in *indexRequest) checkFields(member string) error {
	faults := []error{
		checkName(member+".indexName", in.name),
		checkKeyFields(member+".keySchema", in.schema),
		checkProjectionFields(member+".projection", in.projection),
		checkUnitFields(member+".provisionedThroughput", in.throughput),
	}
	if !in.global && len(in.schema) > 2 {
		faults = append(faults, errConstraint(showKeys(in.schema), member+".keySchema", "Member must have length less than or equal to 2"))
	}
	return joinFaults(faults...)
}

// checkProjectionFields checks each member of a projection separately. member
// is its path in the request.
func checkProjectionFields(member string, in *types.Projection) error {
	if in == nil {
		return errNull(member)
	}
	var faults []error
	switch in.ProjectionType {
	case "", types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude:
	default:
		faults = append(faults, errConstraint(string(in.ProjectionType), member+".projectionType", "Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]"))
	}
	switch n := len(in.NonKeyAttributes); {
	case in.NonKeyAttributes != nil && n == 0:
		faults = append(faults, errConstraint("[]", member+".nonKeyAttributes", "Member must have length greater than or equal to 1"))
	case n > maxIncluded:
		faults = append(faults, errConstraint("["+strings.Join(in.NonKeyAttributes, ", ")+"]", member+".nonKeyAttributes", fmt.Sprintf("Member must have length less than or equal to %d", maxIncluded)))
	}
	for i, name := range in.NonKeyAttributes {
		faults = append(faults, checkKeyName(fmt.Sprintf("%s.nonKeyAttributes.%d.member", member, i+1), &name))
	}
	return joinFaults(faults...)
}

// addIndex adds the requested index to the definition. checkFields has passed.
func (t *table) addIndex(in *indexRequest, definitions []types.AttributeDefinition) (*index, error) {
	ix := &index{Name: *in.name, Global: in.global}
	var err error
	if ix.keySchema, err = keysOf(in.schema, definitions, in.global); err != nil {
		return nil, err
	}
	if err := t.checkLocal(ix); err != nil {
		return nil, err
	}
	if err := ix.setProjection(in.projection); err != nil {
		return nil, err
	}
	if t.index(ix.Name) != nil {
		return nil, invalid("One or more parameter values were invalid: Duplicate index name: %s", ix.Name)
	}
	if err := t.setIndexThroughput(ix, in.throughput); err != nil {
		return nil, err
	}
	if err := t.setWarm(&ix.Warm, in.warm, "index "+ix.Name, t.leastWarm(ix.Read, ix.Write)); err != nil {
		return nil, err
	}
	t.LastID++
	ix.ID = t.LastID
	t.Indexes = append(slices.Clip(t.Indexes), ix)
	return ix, nil
}

// checkLocal refuses a local index that does not share the table's hash key.
func (t *table) checkLocal(ix *index) error {
	switch {
	case ix.Global:
		return nil
	case ix.Range == nil:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have a range key for index: %s", ix.Name)
	case ix.Hash != t.Hash:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s", ix.Name, ix.Hash.Name, t.Hash.Name)
	}
	return nil
}

func (ix *index) setProjection(in *types.Projection) error {
	include := in.ProjectionType == types.ProjectionTypeInclude
	switch {
	case in.ProjectionType == "":
		return invalid("One or more parameter values were invalid: Unknown ProjectionType: null")
	case include && in.NonKeyAttributes == nil:
		return invalid("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case !include && in.NonKeyAttributes != nil:
		return invalid("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", in.ProjectionType)
	}
	for i, name := range in.NonKeyAttributes {
		if slices.Contains(in.NonKeyAttributes[:i], name) {
			return invalid("One or more parameter values were invalid: Duplicate attribute name in NonKeyAttributes: %s", name)
		}
	}
	ix.Projection, ix.Include = in.ProjectionType, slices.Clone(in.NonKeyAttributes)
	return nil
}

func (t *table) setIndexThroughput(ix *index, in *types.ProvisionedThroughput) error {
	switch {
	case !ix.Global:
		return nil
	case t.Billing == types.BillingModePayPerRequest && in != nil:
		return invalid("One or more parameter values were invalid: ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", ix.Name)
	case t.Billing == types.BillingModePayPerRequest:
		return nil
	case in == nil:
		return invalid("One or more parameter values were invalid: ProvisionedThroughput must be specified for index: %s", ix.Name)
	}
	ix.Read, ix.Write = *in.ReadCapacityUnits, *in.WriteCapacityUnits
	return nil
}

func (t *table) checkIndexLimits() error {
	global, included := 0, 0
	for _, ix := range t.Indexes {
		if ix.Global {
			global++
		}
		included += len(ix.Include)
	}
	if err := checkIndexCounts(global, len(t.Indexes)-global); err != nil {
		return err
	}
	if included > maxProjected {
		return invalid("One or more parameter values were invalid: Number of projected attributes exceeds per-table limit of %d", maxProjected)
	}
	return nil
}

func checkIndexCounts(global, local int) error {
	switch {
	case global > maxGlobal:
		return invalid("One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
	case local > maxLocal:
		return invalid("One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	}
	return nil
}
