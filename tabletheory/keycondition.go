package tabletheory

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// keyConditions are the conditions of Where on the keys of the table or index.
type keyConditions struct {
	hash types.AttributeValue // value of the partition key
	sort *constraint          // nil: the whole partition
}

// keyFields returns the keys of the table or index that is read. sort may be
// nil.
func (q *Query) keyFields() (hash, sort *model.Field) {
	switch {
	case q.index == nil:
		return q.model.Hash, q.model.Range
	case q.index.Local:
		return q.model.Hash, q.index.Range
	}
	return q.index.Hash, q.index.Range
}

// source names the table or index for errors.
func (q *Query) source() string {
	if q.index == nil {
		return fmt.Sprintf("the table of %v", q.model.Type)
	}
	return fmt.Sprintf("index %s of %v", q.index.Name, q.model.Type)
}

// keyConditions returns the key conditions. A condition that DynamoDB does not
// support is an error; it never becomes a filter or a scan.
func (q *Query) keyConditions(op string) (keyConditions, error) {
	var hash, sort *constraint
	for i := range q.where {
		slot, err := q.slot(&q.where[i], &hash, &sort)
		if err != nil {
			return keyConditions{}, err
		}
		if *slot != nil {
			return keyConditions{}, invalid("two Where conditions on %s, but DynamoDB takes one: use BETWEEN for a range, or Filter", q.where[i].path.Field.Name)
		}
		*slot = &q.where[i]
	}
	if hash == nil {
		field, _ := q.keyFields()
		return keyConditions{}, invalid("%s needs the partition key of %s: add Where(%q, \"=\", …), or use Scan to read everything", op, q.source(), field.Name)
	}
	value, err := keyAttribute(hash.path, hash.value)
	if err != nil {
		return keyConditions{}, invalid("Where: %w", err)
	}
	return keyConditions{hash: value, sort: sort}, nil
}

// slot returns the key that a constraint is on.
func (q *Query) slot(c *constraint, hash, sort **constraint) (**constraint, error) {
	hashField, sortField := q.keyFields()
	name := c.path.Field.Name
	switch {
	case len(c.path.Steps) == 1 && c.path.Field == hashField:
		if c.operator != "=" {
			return nil, invalid("Where(%q, %q): a partition key takes only =", name, c.operator)
		}
		return hash, nil
	case len(c.path.Steps) == 1 && c.path.Field == sortField:
		if !slices.Contains([]string{"=", "<", "<=", ">", ">=", "BETWEEN", "BEGINS_WITH"}, c.operator) {
			return nil, invalid("Where(%q, %q): a sort key takes =, <, <=, >, >=, BETWEEN and BEGINS_WITH", name, c.operator)
		}
		if c.operator == "BEGINS_WITH" && sortField.Key == types.ScalarAttributeTypeN {
			return nil, invalid("Where(%q, %q): the key is a number: use BETWEEN", name, c.operator)
		}
		return sort, nil
	}
	return nil, invalid("Where(%q): it is not a key of %s: use Filter%s", name, q.source(), q.indexesWith(c.path.Field))
}

// indexesWith suggests the indexes that have a field as a key.
func (q *Query) indexesWith(field *model.Field) string {
	var advice string
	for _, index := range q.model.Indexes {
		if index.Hash == field || index.Range == field {
			advice += fmt.Sprintf(", or Index(%q)", index.Name)
		}
	}
	return advice
}

// keyExpression returns the KeyConditionExpression.
func (q *Query) keyExpression(keys keyConditions) (string, error) {
	hash, _ := q.keyFields()
	text := q.expressions.Attribute(hash) + " = " + q.expressions.Value(keys.hash)
	if keys.sort == nil {
		return text, nil
	}
	condition, err := q.sortExpression(keys.sort)
	return text + " AND " + condition, err
}

func (q *Query) sortExpression(c *constraint) (string, error) {
	values, err := c.operands()
	if err != nil {
		return "", err
	}
	path := q.expressions.Path(c.path)
	placeholders := make([]string, len(values))
	for i, value := range values {
		placeholders[i] = q.expressions.Value(value)
	}
	switch c.operator {
	case "BETWEEN":
		return path + " BETWEEN " + placeholders[0] + " AND " + placeholders[1], nil
	case "BEGINS_WITH":
		return "begins_with(" + path + ", " + placeholders[0] + ")", nil
	}
	return path + " " + c.operator + " " + placeholders[0], nil
}

// operands returns the values that a sort key is compared with: two for BETWEEN,
// otherwise one.
func (c *constraint) operands() ([]types.AttributeValue, error) {
	values := []any{c.value}
	if c.operator == "BETWEEN" {
		bounds := reflect.ValueOf(c.value)
		if kind := bounds.Kind(); kind != reflect.Slice && kind != reflect.Array || bounds.Len() != 2 {
			return nil, invalid("Where(%q): BETWEEN takes a slice of two values, not %s", c.path.Field.Name, describe(c.value))
		}
		values = []any{bounds.Index(0).Interface(), bounds.Index(1).Interface()}
	}
	operands := make([]types.AttributeValue, len(values))
	for i, value := range values {
		av, err := keyAttribute(c.path, value)
		if err != nil {
			return nil, invalid("Where: %w", err)
		}
		operands[i] = av
	}
	return operands, nil
}

// primaryKey returns the primary key of one item, if Where states it.
func (q *Query) primaryKey(keys keyConditions) (key model.Item, ok bool, err error) {
	if q.index != nil {
		return nil, false, nil
	}
	key = model.Item{q.model.Hash.Attribute: keys.hash}
	if q.model.Range == nil {
		return key, true, nil
	}
	if keys.sort == nil || keys.sort.operator != "=" {
		return nil, false, nil
	}
	values, err := keys.sort.operands()
	if err != nil {
		return nil, false, err
	}
	key[q.model.Range.Attribute] = values[0]
	return key, true, nil
}
