package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// KeyCondition is a bound key condition: a value for each attribute of the hash key, and
// conditions on the first attributes of the range key, all but the last of equality.
type KeyCondition struct {
	Hash  []types.AttributeValue
	Equal []types.AttributeValue // of the attributes of the range key before the one of Range
	Range *KeyRange              // nil if there is no condition on the range key
}

// KeyRange is a condition on an attribute of the range key. Operator is =, <, <=, >, >=, BETWEEN (Low
// and High) or begins_with.
type KeyRange struct {
	Operator  string
	Low, High types.AttributeValue // High only for BETWEEN
}

// KeyTerms is a key condition that is not yet resolved against a key schema.
type KeyTerms struct {
	terms []keyTerm // names are distinct
}

// KeyTerms binds a key condition expression, except for what depends on the table.
func (s *Scope) KeyTerms(text string) (*KeyTerms, error) {
	b, err := s.bind(KindKeyCondition, text)
	if err != nil {
		return nil, err
	}
	if err := b.checkCond(b.cond); err != nil {
		return nil, err
	}
	terms, err := b.keyTerms(b.cond, nil)
	if err != nil {
		return nil, err
	}
	for i, t := range terms {
		if slices.ContainsFunc(terms[:i], func(earlier keyTerm) bool { return earlier.name == t.name }) {
			return nil, b.errorf("KeyConditionExpressions must only contain one condition per key")
		}
	}
	return &KeyTerms{terms}, nil
}

// maxKeyTerms returns the maximum number of conditions on a key of this many attributes.
// AWS looks for missing attributes first if there are two.
func maxKeyTerms(attributes int) int { return max(2, attributes) }

// Resolve returns the condition for the given key attributes. ranges is empty if the key
// has no range key.
func (t *KeyTerms) Resolve(hashes, ranges []string) (*KeyCondition, error) {
	attributes := len(hashes) + len(ranges)
	if len(t.terms) > maxKeyTerms(attributes) {
		return nil, fmt.Errorf("The number of query conditions (%d) exceeds the number of key attributes defined in the schema (%d)", len(t.terms), attributes)
	}
	return resolveTerms(t.terms, hashes, ranges)
}

// resolveTerms returns the key condition of terms, whose names must be distinct. The hash
// key needs a condition on each attribute, the range key on its first ones.
func resolveTerms(terms []keyTerm, hashes, ranges []string) (*KeyCondition, error) {
	named := func(name string) *keyTerm {
		at := slices.IndexFunc(terms, func(t keyTerm) bool { return t.name == name })
		if at < 0 {
			return nil
		}
		return &terms[at]
	}
	var used []*keyTerm
	for _, name := range hashes {
		t := named(name)
		if t == nil {
			return nil, errMissingKey(name)
		}
		used = append(used, t)
	}
	for _, name := range ranges {
		t := named(name)
		if t == nil && len(used) < len(terms) { // the rest is for a later one, or not for this key
			return nil, errMissingKey(name)
		}
		if t == nil {
			break
		}
		used = append(used, t)
	}
	if len(used) < len(terms) {
		return nil, errKeyOperator
	}
	return newKeyCondition(used, len(hashes))
}

// newKeyCondition validates the operators of terms in the order of the key, of which the
// first hashes are of the hash key.
func newKeyCondition(terms []*keyTerm, hashes int) (*KeyCondition, error) {
	for _, t := range terms {
		if !indexable(t.op) {
			return nil, errors.New("Attempted conditional constraint is not an indexable operation")
		}
	}
	out := &KeyCondition{}
	for i, t := range terms {
		switch {
		case i >= hashes && i == len(terms)-1:
			out.Range = &KeyRange{Operator: string(t.op), Low: t.values[0]}
			if t.op == opBetween {
				out.Range.High = t.values[1]
			}
		case t.op != opEqual:
			return nil, errKeyOperator
		case i < hashes:
			out.Hash = append(out.Hash, t.values[0])
		default:
			out.Equal = append(out.Equal, t.values[0])
		}
	}
	return out, nil
}

func errMissingKey(name string) error {
	return fmt.Errorf("Query condition missed key schema element: %s", name)
}

var errKeyOperator = errors.New("Query key condition not supported")

// indexable reports whether a key condition may use the operator.
func indexable(o op) bool {
	switch o {
	case opEqual, opLess, opLessEqual, opGreater, opGreaterEqual, opBetween, opBeginsWith:
		return true
	}
	return false
}

// keyTerm compares a key attribute with one or two values.
type keyTerm struct {
	name   string
	op     op
	values []types.AttributeValue
}

// keyTerms collects the terms of a conjunction.
func (b *binding) keyTerms(c *cond, terms []keyTerm) ([]keyTerm, error) {
	switch {
	case c.op == opAnd:
		var err error
		for _, child := range c.children {
			if terms, err = b.keyTerms(child, terms); err != nil {
				return nil, err
			}
		}
		return terms, nil
	case indexable(c.op):
		t, err := b.keyTerm(c)
		return append(terms, t), err
	}
	return nil, b.errorf("Invalid operator used in KeyConditionExpression: %s", c.op)
}

func (b *binding) keyTerm(c *cond) (keyTerm, error) {
	t := keyTerm{op: c.op}
	for i, arg := range c.args {
		switch arg.kind {
		case operandPath:
			if len(arg.path) > 1 {
				return t, b.errorf("KeyConditionExpressions cannot have conditions on nested attributes")
			}
			if t.name != "" {
				return t, b.errorf("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
			}
			t.name = b.name(arg.path[0])
			if i > 0 && (c.op == opBetween || c.op == opBeginsWith) {
				return t, b.errorf("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", c.op)
			}
			if i > 0 {
				t.op = mirrored(c.op)
			}
		case operandValue:
			t.values = append(t.values, b.values[arg.ref])
		default:
			return t, b.errorf("KeyConditionExpressions cannot contain nested operations")
		}
	}
	if t.name == "" {
		return t, b.errorf("Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	return t, nil
}

// mirrored returns the operator that keeps the meaning when the operands are swapped.
func mirrored(o op) op {
	switch o {
	case opLess:
		return opGreater
	case opLessEqual:
		return opGreaterEqual
	case opGreater:
		return opLess
	case opGreaterEqual:
		return opLessEqual
	}
	return o
}
