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

// tableShape is a table as the models want it that share it.
type tableShape struct {
	name    string
	key     keyShape
	indexes []indexShape // in the order of the models and of their fields
	ttl     string       // attribute; empty: no model has one
}

// keyShape is a partition key and, maybe, a sort key.
type keyShape []*model.Field

// indexShape is a secondary index, with all attributes.
type indexShape struct {
	name  string
	local bool
	key   keyShape
}

// shapeOf joins what the models want. They must agree on the table, on its key,
// on the keys of indexes of one name, on the types of attributes and on the TTL.
func (m *mapper) shapeOf(v any, others []any) (*tableShape, error) {
	shape, err := m.shapeOfOne(v)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		added, err := m.shapeOfOne(other)
		if err != nil {
			return nil, err
		}
		if err := shape.add(added); err != nil {
			return nil, fmt.Errorf("tabletheory: %w: %T does not fit the table of %T: %w", ErrInvalidModel, other, v, err)
		}
	}
	if err := shape.checkTypes(); err != nil {
		return nil, fmt.Errorf("tabletheory: %w: table %s: %w", ErrInvalidModel, shape.name, err)
	}
	return shape, nil
}

func (m *mapper) shapeOfOne(v any) (*tableShape, error) {
	t, err := m.target(v)
	if err != nil {
		return nil, err
	}
	shape := &tableShape{name: t.table, key: keyShapeOf(t.model.Hash, t.model.Range)}
	for _, index := range t.model.Indexes {
		hash := index.Hash
		if index.Local {
			hash = t.model.Hash
		}
		shape.indexes = append(shape.indexes, indexShape{index.Name, index.Local, keyShapeOf(hash, index.Range)})
	}
	if t.model.TTL != nil {
		shape.ttl = t.model.TTL.Attribute
	}
	return shape, nil
}

func keyShapeOf(hash, sort *model.Field) keyShape {
	if sort == nil {
		return keyShape{hash}
	}
	return keyShape{hash, sort}
}

// add adds what another model of the same table wants.
func (s *tableShape) add(other *tableShape) error {
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

func (s *tableShape) index(name string) (indexShape, bool) {
	for _, index := range s.indexes {
		if index.name == name {
			return index, true
		}
	}
	return indexShape{}, false
}

// checkTypes wants every key attribute to be of one type.
func (s *tableShape) checkTypes() error {
	kinds := map[string]types.ScalarAttributeType{}
	for _, field := range s.keyFields() {
		if kind, ok := kinds[field.Attribute]; ok && kind != field.Key {
			return fmt.Errorf("the attribute %s is a key of type %s here, and %s there", field.Attribute, kind, field.Key)
		}
		kinds[field.Attribute] = field.Key
	}
	return nil
}

// keyFields returns the fields of all keys, some of them more than once.
func (s *tableShape) keyFields() []*model.Field {
	fields := append([]*model.Field(nil), s.key...)
	for _, index := range s.indexes {
		fields = append(fields, index.key...)
	}
	return fields
}

// request is for CreateTable: on demand, with all indexes.
func (s *tableShape) request() *dynamodb.CreateTableInput {
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

// definitionsOf defines each attribute once.
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

func (k keyShape) schema() []types.KeySchemaElement {
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

// String returns the words of describeSchema.
func (k keyShape) String() string {
	return describeSchema(k.schema(), definitionsOf(k))
}

// String tells what two indexes of one name must have in common.
func (i indexShape) String() string {
	if i.local {
		return "local, with the keys " + i.key.String()
	}
	return "global, with the keys " + i.key.String()
}

// describeSchema tells of keys what cannot be changed: "pk (S, hash), sk (N,
// range)". Keys of the same words are the same.
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
