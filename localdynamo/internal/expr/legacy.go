package expr

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// The legacy parameters, which expressions replaced. They are built into the same
// trees as expressions and evaluated by the same code.
const (
	KindExpected         Kind = "Expected"
	KindQueryFilter      Kind = "QueryFilter"
	KindScanFilter       Kind = "ScanFilter"
	KindKeyConditions    Kind = "KeyConditions"
	KindAttributeUpdates Kind = "AttributeUpdates"
)

// Expected binds the Expected parameter. operator joins the conditions; "" means AND.
// No conditions return a nil Condition.
func Expected(expected map[string]types.ExpectedAttributeValue, operator types.ConditionalOperator) (*Condition, error) {
	l := newLegacy(KindExpected)
	names := slices.Sorted(maps.Keys(expected))
	for _, name := range names {
		if c := expected[name].ComparisonOperator; c != "" {
			if err := l.checkOperator(name, c); err != nil {
				return nil, err
			}
		}
	}
	var conds []*cond
	for _, name := range names {
		c, err := l.expect(name, expected[name])
		if err != nil {
			return nil, err
		}
		conds = append(conds, c)
	}
	return l.join(conds, operator)
}

// Filter binds QueryFilter or ScanFilter, depending on kind. No conditions return a
// nil Condition.
func Filter(kind Kind, conditions map[string]types.Condition, operator types.ConditionalOperator) (*Condition, error) {
	l := newLegacy(kind)
	comparisons, err := l.comparisons(conditions)
	if err != nil {
		return nil, err
	}
	conds := make([]*cond, len(comparisons))
	for i, c := range comparisons {
		conds[i] = l.cond(c)
	}
	return l.join(conds, operator)
}

// KeyConditions binds the KeyConditions parameter for a table or index with the given
// key attributes. ranges is empty if the key has no range key.
func KeyConditions(conditions map[string]types.Condition, hashes, ranges []string) (*KeyCondition, error) {
	comparisons, err := newLegacy(KindKeyConditions).comparisons(conditions)
	if err != nil {
		return nil, err
	}
	if n, most := len(comparisons), maxKeyTerms(len(hashes)+len(ranges)); n < 1 || n > most {
		if most == 2 {
			return nil, errors.New("Conditions can be of length 1 or 2 only")
		}
		return nil, fmt.Errorf("Conditions can be of length 1 to %d only", most)
	}
	var terms []keyTerm
	for _, c := range comparisons {
		terms = append(terms, keyTerm{name: c.name, op: c.op, values: c.args})
	}
	return resolveTerms(terms, hashes, ranges)
}

// AttributesToGet returns a projection of top-level attributes. Names are literal, not
// document paths. A nil list returns a nil Projection.
func AttributesToGet(names []string) (*Projection, error) {
	if names == nil {
		return nil, nil
	}
	if len(names) == 0 {
		return nil, errors.New("1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1")
	}
	root := &branch{names: make(map[string]*branch, len(names))}
	for _, name := range names {
		if err := value.CheckName(name); err != nil {
			return nil, err
		}
		if root.names[name] != nil {
			return nil, invalidValue("Duplicate value in attribute name: %s", name)
		}
		root.names[name] = &branch{first: attributePath(name), leaf: true}
	}
	return newProjection(root), nil
}

// legacy builds the tree of a legacy parameter. It has no placeholders: values holds
// the operands in order of use.
type legacy struct{ binding }

func newLegacy(kind Kind) *legacy {
	return &legacy{binding{Parsed: &Parsed{kind: kind}}}
}

// attributePath returns the path of a top-level attribute. The name may contain any
// characters.
func attributePath(name string) path { return path{{kind: stepName, name: name}} }

func (l *legacy) operand(v types.AttributeValue) *operand {
	l.values = append(l.values, v)
	return &operand{kind: operandValue, ref: len(l.values) - 1}
}

// CheckOperator validates a ConditionalOperator, which may be "". For Scan, AWS's
// message names the parameter and its values; elsewhere it differs, and lists ALL
// instead of AND.
func CheckOperator(kind Kind, operator types.ConditionalOperator) error {
	switch {
	case operator == "", operator == types.ConditionalOperatorAnd, operator == types.ConditionalOperatorOr:
		return nil
	case kind == KindScanFilter:
		return fmt.Errorf("1 validation error detected: Value '%s' at 'conditionalOperator' failed to satisfy constraint: Member must satisfy enum value set: [OR, AND]", operator)
	}
	return errors.New("Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]")
}

// join combines conditions with operator.
func (l *legacy) join(conds []*cond, operator types.ConditionalOperator) (*Condition, error) {
	if err := CheckOperator(l.kind, operator); err != nil {
		return nil, err
	}
	joined := opAnd
	if operator == types.ConditionalOperatorOr {
		joined = opOr
	}
	switch {
	case operator != "" && len(conds) == 0:
		return nil, errors.New("ConditionalOperator cannot be used without Filter or Expected")
	case operator != "" && len(conds) == 1:
		return nil, errors.New("ConditionalOperator can only be used when Filter or Expected has two or more elements")
	case len(conds) == 0:
		return nil, nil
	}
	l.Parsed.cond = &cond{op: joined, children: conds}
	return newCondition(l.binding), nil
}

// expect converts an element of Expected. It is either a comparison, or the value that
// the attribute must have (with Exists false, none).
func (l *legacy) expect(name string, e types.ExpectedAttributeValue) (*cond, error) {
	exists := e.Exists == nil || *e.Exists
	switch {
	case e.Value != nil && e.AttributeValueList != nil:
		return nil, invalidValue("Value and AttributeValueList cannot be used together for Attribute: %s", name)
	case e.ComparisonOperator != "":
		return l.expectComparison(name, e)
	case e.AttributeValueList != nil:
		return nil, invalidValue("AttributeValueList can only be used with a ComparisonOperator for Attribute: %s", name)
	case exists && e.Value == nil:
		given := "null"
		if e.Exists != nil {
			given = "true"
		}
		return nil, invalidValue("Value must be provided when Exists is %s for Attribute: %s", given, name)
	case !exists && e.Value != nil:
		return nil, invalidValue("Value cannot be used when Exists is false for Attribute: %s", name)
	case !exists:
		return l.compared(name, types.ComparisonOperatorNull, nil)
	}
	return l.compared(name, types.ComparisonOperatorEq, []types.AttributeValue{e.Value})
}

func (l *legacy) expectComparison(name string, e types.ExpectedAttributeValue) (*cond, error) {
	if e.Exists != nil {
		return nil, invalidValue("Exists and ComparisonOperator cannot be used together for Attribute: %s", name)
	}
	args := e.AttributeValueList
	if e.Value != nil {
		args = []types.AttributeValue{e.Value}
	}
	if args == nil && e.ComparisonOperator != types.ComparisonOperatorNull && e.ComparisonOperator != types.ComparisonOperatorNotNull {
		return nil, invalidValue("Value or AttributeValueList must be used with ComparisonOperator: %s for Attribute: %s", e.ComparisonOperator, name)
	}
	return l.compared(name, e.ComparisonOperator, args)
}

func (l *legacy) compared(name string, operator types.ComparisonOperator, args []types.AttributeValue) (*cond, error) {
	c, err := newComparison(name, operator, args)
	if err != nil {
		return nil, err
	}
	return l.cond(c), nil
}

// comparisons converts filters and key conditions, sorted by attribute name.
func (l *legacy) comparisons(conditions map[string]types.Condition) ([]comparison, error) {
	names := slices.Sorted(maps.Keys(conditions))
	for _, name := range names {
		if err := l.checkOperator(name, conditions[name].ComparisonOperator); err != nil {
			return nil, err
		}
	}
	var out []comparison
	for _, name := range names {
		c, err := newComparison(name, conditions[name].ComparisonOperator, conditions[name].AttributeValueList)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// checkOperator rejects unknown operators. AWS checks all operators before anything
// that depends on them.
func (l *legacy) checkOperator(name string, operator types.ComparisonOperator) error {
	if _, known := lookUpOperator(operator); known {
		return nil
	}
	at := l.member(name, "comparisonOperator")
	if operator == "" {
		return fmt.Errorf("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", at)
	}
	return fmt.Errorf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]", operator, at)
}

// member formats the location of a field within the parameter as AWS's messages do.
func (l *legacy) member(name, field string) string {
	kind := string(l.kind)
	return strings.ToLower(kind[:1]) + kind[1:] + "." + name + ".member." + field
}

// cond converts a comparison to a node of the tree.
func (l *legacy) cond(c comparison) *cond {
	attribute := &operand{kind: operandPath, path: attributePath(c.name)}
	args := []*operand{attribute}
	for _, v := range c.args {
		args = append(args, l.operand(v))
	}
	compare := &cond{op: c.op, args: args}
	if !c.negated {
		return compare
	}
	// An absent attribute matches neither CONTAINS nor NOT_CONTAINS.
	return &cond{op: opAnd, children: []*cond{
		{op: opExists, args: []*operand{attribute}},
		{op: opNot, children: []*cond{compare}},
	}}
}

// comparison compares an attribute with validated arguments.
type comparison struct {
	operator
	name string
	args []types.AttributeValue
}

// operator describes a ComparisonOperator.
type operator struct {
	op      op
	negated bool   // NOT_CONTAINS
	min     int    // number of arguments
	max     int    // number of arguments
	types   string // allowed types of the arguments
}

func lookUpOperator(name types.ComparisonOperator) (operator, bool) {
	switch name {
	case types.ComparisonOperatorEq:
		return operator{op: opEqual, min: 1, max: 1, types: allTypes}, true
	case types.ComparisonOperatorNe:
		return operator{op: opNotEqual, min: 1, max: 1, types: allTypes}, true
	case types.ComparisonOperatorLe:
		return operator{op: opLessEqual, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorLt:
		return operator{op: opLess, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorGe:
		return operator{op: opGreaterEqual, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorGt:
		return operator{op: opGreater, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorIn:
		return operator{op: opIn, min: 1, max: math.MaxInt, types: ordered}, true
	case types.ComparisonOperatorBetween:
		return operator{op: opBetween, min: 2, max: 2, types: ordered}, true
	case types.ComparisonOperatorBeginsWith:
		return operator{op: opBeginsWith, min: 1, max: 1, types: prefixes}, true
	case types.ComparisonOperatorContains:
		return operator{op: opContains, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorNotContains:
		return operator{op: opContains, negated: true, min: 1, max: 1, types: ordered}, true
	case types.ComparisonOperatorNull:
		return operator{op: opNotExists}, true
	case types.ComparisonOperatorNotNull:
		return operator{op: opExists}, true
	}
	return operator{}, false
}

// newComparison validates arguments in AWS's order: each argument, their number, that
// they have the same type, and that the operator accepts that type.
func newComparison(name string, named types.ComparisonOperator, args []types.AttributeValue) (comparison, error) {
	o, _ := lookUpOperator(named)
	c := comparison{operator: o, name: name}
	if err := value.CheckName(name); err != nil {
		return c, err
	}
	for _, arg := range args {
		v, err := value.Normalize(arg)
		if err != nil {
			return c, err
		}
		c.args = append(c.args, v)
	}
	if n := len(args); n < o.min || n > o.max {
		return c, invalidValue("Invalid number of argument(s) for the %s ComparisonOperator", named)
	}
	if len(args) == 0 {
		return c, nil
	}
	first := value.Type(c.args[0])
	for _, v := range c.args[1:] {
		if value.Type(v) != first {
			return c, invalidValue("AttributeValues inside AttributeValueList must be of same type")
		}
	}
	if !hasType(o.types, first) {
		return c, invalidValue("ComparisonOperator %s is not valid for %s AttributeValue type", named, first)
	}
	if o.op == opBetween {
		if order, _ := value.Compare(c.args[0], c.args[1]); order > 0 {
			return c, errors.New("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
		}
	}
	return c, nil
}

func invalidValue(format string, args ...any) error {
	return fmt.Errorf("One or more parameter values were invalid: "+format, args...)
}
