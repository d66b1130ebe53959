package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// KeyCondition is a bound key condition: one value of the hash key, and at
// most one restriction of the range key.
type KeyCondition struct {
	Hash  types.AttributeValue
	Range *KeyRange
}

// KeyRange restricts the range key. Operator is =, <, <=, >, >=, BETWEEN (of
// both values) or begins_with.
type KeyRange struct {
	Operator  string
	Low, High types.AttributeValue // High only for BETWEEN
}

// KeyTerms is a key condition of which it is not yet known what the keys are.
type KeyTerms struct {
	terms []keyTerm // of distinct names
}

// KeyTerms binds text, as far as that needs no table.
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

// maxKeyTerms is how many attributes a key has at most.
const maxKeyTerms = 2

// Resolve returns the condition on a key of these attributes; rangeName is "" if
// there is only a hash key.
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

// resolveTerms makes a key condition of its terms, which are of distinct names.
func resolveTerms(terms []keyTerm, hashName, rangeName string) (*KeyCondition, error) {
	var hash, rng *keyTerm
	stranger := false
	for i := range terms {
		switch terms[i].name {
		case hashName:
			hash = &terms[i]
		case rangeName:
			rng = &terms[i]
		default:
			stranger = true
		}
	}
	switch {
	case hash == nil:
		return nil, errMissingKey(hashName)
	case stranger && rangeName == "":
		return nil, errKeyOperator
	case stranger:
		return nil, errMissingKey(rangeName)
	}
	return newKeyCondition(hash, rng)
}

// newKeyCondition checks the operators; rng may be nil.
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

// indexable reports whether the order of an index answers the operator.
func indexable(o op) bool {
	switch o {
	case opEqual, opLess, opLessEqual, opGreater, opGreaterEqual, opBetween, opBeginsWith:
		return true
	}
	return false
}

// keyTerm is one comparison of a key attribute with one or two values.
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

// mirrored is the operator of y op x that says the same as x op y.
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
