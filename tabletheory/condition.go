package tabletheory

import (
	"errors"
	"fmt"

	"github.com/facetheory/isr/tabletheory/core"
	"github.com/facetheory/isr/tabletheory/internal/expression"
)

// Condition demands of a field of the stored item that it compares so with a
// value; see [core.Query] for the operators. An attribute that is not there is
// different (<>) from every value, and compares in no other way.
func Condition(field, operator string, value any) core.Condition {
	return core.Condition{Kind: core.Compare, Field: field, Operator: operator, Value: value}
}

// ConditionExpression demands what an expression in DynamoDB's own words says. A
// #name in it stands for the attribute of the field of that name, and values
// are those of its :placeholders, with their colons.
func ConditionExpression(expression string, values map[string]any) core.Condition {
	return core.Condition{Kind: core.Expression, Expression: expression, Values: values}
}

// IfExists demands that there is an item.
func IfExists() core.Condition { return core.Condition{Kind: core.Exists} }

// IfNotExists demands that there is no item.
func IfNotExists() core.Condition { return core.Condition{Kind: core.NotExists} }

// AtVersion demands that the version field of the stored item is this one, or,
// for 0, that there is none. What writes the item demands it instead of the
// model's version, and increments it.
func AtVersion(version int64) core.Condition {
	return core.Condition{Kind: core.AtVersion, Value: version}
}

// condition writes a condition as DynamoDB has it.
func (t *target) condition(b *expression.Builder, c core.Condition) (expression.Condition, error) {
	switch c.Kind {
	case core.Compare:
		return t.compare(b, c)
	case core.Expression:
		return t.written(b, c)
	case core.Exists:
		return b.Compare(t.model.Hash.Path(), "EXISTS", nil)
	case core.NotExists:
		return b.Compare(t.model.Hash.Path(), "NOT_EXISTS", nil)
	case core.AtVersion:
		version, ok := c.Value.(int64)
		if !ok {
			return expression.Condition{}, fmt.Errorf("a version is an int64, not a %T: use AtVersion", c.Value)
		}
		return t.atVersion(b, version)
	}
	return expression.Condition{}, fmt.Errorf("there is no condition of kind %d: use the functions that make conditions", c.Kind)
}

func (t *target) compare(b *expression.Builder, c core.Condition) (expression.Condition, error) {
	path, err := t.model.Path(c.Field)
	if err != nil {
		return expression.Condition{}, err
	}
	if err := canCompare(path, c.Operator); err != nil {
		return expression.Condition{}, err
	}
	condition, err := b.Compare(path, c.Operator, c.Value)
	if err != nil {
		return expression.Condition{}, fmt.Errorf("%s: %w", c.Field, err)
	}
	return condition, nil
}

func (t *target) written(b *expression.Builder, c core.Condition) (expression.Condition, error) {
	if c.Expression == "" {
		return expression.Condition{}, errors.New("the expression is empty")
	}
	return b.Written(t.model, c.Expression, c.Values, t.models.EncodeValue)
}

// atVersion demands a version. An item that has none, or that does not exist,
// has version 0.
func (t *target) atVersion(b *expression.Builder, version int64) (expression.Condition, error) {
	field := t.model.Version
	if field == nil {
		return expression.Condition{}, fmt.Errorf("%v has no version: give one of its fields the tag version", t.model.Type)
	}
	if version < 0 {
		return expression.Condition{}, fmt.Errorf("there is no version %d: the first is 1, and 0 is none", version)
	}
	path := field.Path()
	same, err := b.Compare(path, "=", version)
	if err != nil || version > 0 {
		return same, err
	}
	absent, err := b.Compare(path, "NOT_EXISTS", nil)
	return absent.Or(same), err
}
