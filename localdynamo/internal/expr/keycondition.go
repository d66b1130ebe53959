package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// KeyCondition is a bound key condition: a hash key value and at most one condition
// on the range key.
type KeyCondition struct {
	Hash  types.AttributeValue
	Range *KeyRange
}

// KeyRange is a condition on the range key. Operator is =, <, <=, >, >=, BETWEEN (Low
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

// maxKeyTerms is the maximum number of key attributes.
const maxKeyTerms = 2

// Resolve returns the condition for the given key attributes. rangeName is "" if the
// key has no range key.
func (t *KeyTerms) Resolve(hashName, rangeName string) (*KeyCondition, error) {
	attributes := maxKeyTerms
	if rangeName == "" {
		attributes--
	}
	if len(t.terms) > maxKeyTerms {
		return nil, fmt.Errorf("The number of query conditions (%d) exceeds the number of key attributes defined in the schema (%d)", len(t.terms), attributes)
	}
	return resolveTerms(t.terms, hashName, rangeName)
}

// resolveTerms returns the key condition of terms, whose names must be distinct.
func resolveTerms(terms []keyTerm, hashName, rangeName string) (*KeyCondition, error) {
	var hash, rng *keyTerm
	unknown := false
	for i := range terms {
		switch terms[i].name {
		case hashName:
			hash = &terms[i]
		case rangeName:
			rng = &terms[i]
		default:
			unknown = true
		}
	}
	switch {
	case hash == nil:
		return nil, errMissingKey(hashName)
	case unknown && rangeName == "":
		return nil, errKeyOperator
	case unknown:
		return nil, errMissingKey(rangeName)
	}
	return newKeyCondition(hash, rng)
}

// newKeyCondition validates the operators. rng may be nil.
func newKeyCondition(hash, rng *keyTerm) (*KeyCondition, error) {
	for _, t := range []*keyTerm{hash, rng} {
		if t != nil && !indexable(t.op) {
			return nil, errors.New("Attempted conditional constraint is not an indexable operation")
		}
	}
	if hash.op != opEqual {
		return nil, errKeyOperator
	}
	out := &KeyCondition{Hash: hash.values[0]}
	if rng != nil {
		out.Range = &KeyRange{Operator: string(rng.op), Low: rng.values[0]}
		if rng.op == opBetween {
			out.Range.High = rng.values[1]
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
