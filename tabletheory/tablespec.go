package tabletheory

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// tableSpec is the table that the models sharing it need.
type tableSpec struct {
	name    string
	key     keySpec
	indexes []indexSpec // in the order of the models and their fields
	ttl     string      // attribute; empty: no model has one
}

// keySpec is a partition key and an optional sort key.
type keySpec []*model.Field

// indexSpec is a secondary index that projects all attributes.
type indexSpec struct {
	name  string
	local bool
	key   keySpec
}

// specOf merges the specs of models. They must agree on the table, its key, the
// keys of indexes with the same name, the types of attributes and the TTL
// attribute.
func (m *mapper) specOf(v any, others []any) (*tableSpec, error) {
	spec, err := m.specOfOne(v)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		added, err := m.specOfOne(other)
		if err != nil {
			return nil, err
		}
		if err := spec.add(added); err != nil {
			return nil, fmt.Errorf("tabletheory: %w: %T does not fit the table of %T: %w", ErrInvalidModel, other, v, err)
		}
	}
	if err := spec.checkTypes(); err != nil {
		return nil, fmt.Errorf("tabletheory: %w: table %s: %w", ErrInvalidModel, spec.name, err)
	}
	return spec, nil
}

func (m *mapper) specOfOne(v any) (*tableSpec, error) {
	t, err := m.target(v)
	if err != nil {
		return nil, err
	}
	spec := &tableSpec{name: t.table, key: newKeySpec(t.model.Hash, t.model.Range)}
	for _, index := range t.model.Indexes {
		hash := index.Hash
		if index.Local {
			hash = t.model.Hash
		}
		spec.indexes = append(spec.indexes, indexSpec{index.Name, index.Local, newKeySpec(hash, index.Range)})
	}
	if t.model.TTL != nil {
		spec.ttl = t.model.TTL.Attribute
	}
	return spec, nil
}

func newKeySpec(hash, sort *model.Field) keySpec {
	if sort == nil {
		return keySpec{hash}
	}
	return keySpec{hash, sort}
}

// add merges the spec of another model.
func (s *tableSpec) add(other *tableSpec) error {
	if other.name != s.name {
		return fmt.Errorf("it belongs to the table %s, not %s", other.name, s.name)
	}
	if other.key.String() != s.key.String() {
		return fmt.Errorf("its keys are %v, not %v", other.key, s.key)
	}
	if s.ttl != "" && other.ttl != "" && s.ttl != other.ttl {
		return fmt.Errorf("its ttl is the attribute %s, not %s", other.ttl, s.ttl)
	}
	s.ttl = cmp.Or(s.ttl, other.ttl)
	for _, index := range other.indexes {
		known, ok := s.index(index.name)
		switch {
		case !ok:
			s.indexes = append(s.indexes, index)
		case known.String() != index.String():
			return fmt.Errorf("its index %s is %v, not %v", index.name, index, known)
		}
	}
	return nil
}

func (s *tableSpec) index(name string) (indexSpec, bool) {
	for _, index := range s.indexes {
		if index.name == name {
			return index, true
		}
	}
	return indexSpec{}, false
}

// checkTypes returns an error if a key attribute has two types.
func (s *tableSpec) checkTypes() error {
	kinds := map[string]types.ScalarAttributeType{}
	for _, field := range s.keyFields() {
		if kind, ok := kinds[field.Attribute]; ok && kind != field.Key {
			return fmt.Errorf("key attribute %s has the types %s and %s", field.Attribute, kind, field.Key)
		}
		kinds[field.Attribute] = field.Key
	}
	return nil
}

// keyFields returns the fields of all keys. It may have duplicates.
func (s *tableSpec) keyFields() []*model.Field {
	fields := append([]*model.Field(nil), s.key...)
	for _, index := range s.indexes {
		fields = append(fields, index.key...)
	}
	return fields
}

// request returns the CreateTable request: on-demand billing, with all indexes.
func (s *tableSpec) request() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:            &s.name,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            s.key.schema(),
		AttributeDefinitions: definitionsOf(s.keyFields()),
	}
	for _, index := range s.indexes {
		if index.local {
			in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{
				IndexName: &index.name, KeySchema: index.key.schema(), Projection: allAttributes(),
			})
			continue
		}
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &index.name, KeySchema: index.key.schema(), Projection: allAttributes(),
		})
	}
	return in
}

func allAttributes() *types.Projection {
	return &types.Projection{ProjectionType: types.ProjectionTypeAll}
}

// definitionsOf returns the definition of each attribute, without duplicates.
func definitionsOf(fields []*model.Field) []types.AttributeDefinition {
	var definitions []types.AttributeDefinition
	seen := map[string]bool{}
	for _, field := range fields {
		if seen[field.Attribute] {
			continue
		}
		seen[field.Attribute] = true
		definitions = append(definitions, types.AttributeDefinition{AttributeName: &field.Attribute, AttributeType: field.Key})
	}
	return definitions
}

func (k keySpec) schema() []types.KeySchemaElement {
	schema := make([]types.KeySchemaElement, len(k))
	for i, field := range k {
		schema[i] = types.KeySchemaElement{AttributeName: &field.Attribute, KeyType: keyTypes(i)}
	}
	return schema
}

func keyTypes(i int) types.KeyType {
	if i == 0 {
		return types.KeyTypeHash
	}
	return types.KeyTypeRange
}

// String formats the key like describeSchema.
func (k keySpec) String() string {
	return describeSchema(k.schema(), definitionsOf(k))
}

// String formats the properties in which indexes with the same name must agree.
func (i indexSpec) String() string {
	if i.local {
		return "local, with the keys " + i.key.String()
	}
	return "global, with the keys " + i.key.String()
}

// describeSchema formats the immutable properties of keys: "pk (S, hash), sk (N,
// range)". Equal keys have equal texts.
func describeSchema(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) string {
	kinds := make(map[string]types.ScalarAttributeType, len(definitions))
	for _, definition := range definitions {
		kinds[aws.ToString(definition.AttributeName)] = definition.AttributeType
	}
	keys := make([]string, len(schema))
	for i, element := range schema {
		name := aws.ToString(element.AttributeName)
		keys[i] = fmt.Sprintf("%s (%s, %s)", name, kinds[name], strings.ToLower(string(element.KeyType)))
	}
	return strings.Join(keys, ", ")
}
