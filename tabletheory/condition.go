package tabletheory

import (
	"errors"
	"fmt"

	"github.com/facetheory/isr/tabletheory/internal/expression"
)

// A Precondition is a condition on the stored item. If it does not hold, the
// write changes nothing and returns [ErrConditionFailed]. [Condition],
// [ConditionExpression], [IfExists], [IfNotExists] and [AtVersion] make them.
type Precondition struct {
	kind     preconditionKind
	field    string
	operator string
	value    any

	expression string         // in DynamoDB's syntax, with :placeholders
	values     map[string]any // of the placeholders, with their colons

	version int64
}

type preconditionKind int

const (
	_ preconditionKind = iota // the zero Precondition is refused
	comparison
	writtenExpression
	itemExists
	itemNotExists
	versionEquals
)

// Condition requires a comparison to hold for a field of the stored item; see
// [Query] for the operators. A missing attribute is different (<>) from every
// value, and every other comparison with it is false.
func Condition(field, operator string, value any) Precondition {
	return Precondition{kind: comparison, field: field, operator: operator, value: value}
}

// ConditionExpression requires a condition expression in DynamoDB's syntax to
// hold. In it #name stands for the attribute of the field with that name; values
// has the values of its :placeholders, with their colons.
func ConditionExpression(expression string, values map[string]any) Precondition {
	return Precondition{kind: writtenExpression, expression: expression, values: values}
}

// IfExists requires the item to exist.
func IfExists() Precondition { return Precondition{kind: itemExists} }

// IfNotExists requires the item not to exist.
func IfNotExists() Precondition { return Precondition{kind: itemNotExists} }

// AtVersion requires the version field of the stored item to have this value; 0
// also matches an item without a version and a missing item. A write of the item
// compares this version instead of the model's, and increments it.
func AtVersion(version int64) Precondition {
	return Precondition{kind: versionEquals, version: version}
}

// condition returns the condition expression of a precondition.
func (t *target) condition(b *expression.Builder, c Precondition) (expression.Condition, error) {
	switch c.kind {
	case comparison:
		return t.compare(b, c)
	case writtenExpression:
		return t.written(b, c)
	case itemExists:
		return b.Compare(t.model.Hash.Path(), "EXISTS", nil)
	case itemNotExists:
		return b.Compare(t.model.Hash.Path(), "NOT_EXISTS", nil)
	case versionEquals:
		return t.atVersion(b, c.version)
	}
	return expression.Condition{}, errors.New("the precondition is the zero Precondition: use Condition, IfExists, …")
}

func (t *target) compare(b *expression.Builder, c Precondition) (expression.Condition, error) {
	path, err := t.model.Path(c.field)
	if err != nil {
		return expression.Condition{}, err
	}
	if err := canCompare(path, c.operator); err != nil {
		return expression.Condition{}, err
	}
	condition, err := b.Compare(path, c.operator, c.value)
	if err != nil {
		return expression.Condition{}, fmt.Errorf("%s: %w", c.field, err)
	}
	return condition, nil
}

func (t *target) written(b *expression.Builder, c Precondition) (expression.Condition, error) {
	if c.expression == "" {
		return expression.Condition{}, errors.New("the expression is empty")
	}
	return b.Raw(t.model, c.expression, c.values, t.models.EncodeValue)
}

// atVersion returns the condition on the version. A missing item and an item
// without a version have version 0.
func (t *target) atVersion(b *expression.Builder, version int64) (expression.Condition, error) {
	field := t.model.Version
	if field == nil {
		return expression.Condition{}, fmt.Errorf("%v has no version field: give one field the tag version", t.model.Type)
	}
	if version < 0 {
		return expression.Condition{}, fmt.Errorf("version %d: must be at least 0 (none)", version)
	}
	path := field.Path()
	same, err := b.Compare(path, "=", version)
	if err != nil || version > 0 {
		return same, err
	}
	absent, err := b.Compare(path, "NOT_EXISTS", nil)
	return absent.Or(same), err
}
