package expr

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Sets of the types that operators accept, by wire name.
const (
	ordered   = " S N B "
	prefixes  = " S B "
	typeNames = " S "
	sized     = " S B SS NS BS L M "
	summable  = " N "
	lists     = " L "
	addable   = " N SS NS BS "
	deletable = " SS NS BS "
	allTypes  = " S N B BOOL NULL L M SS NS BS "
)

// typeSet is the list of type names in AWS's messages.
const typeSet = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"

func hasType(set, name string) bool { return strings.Contains(set, " "+name+" ") }

// checkCond reports errors that do not depend on the item.
func (b *binding) checkCond(c *cond) error {
	for _, child := range c.children {
		if err := b.checkCond(child); err != nil {
			return err
		}
	}
	if len(c.args) == 0 {
		return nil
	}
	if err := b.checkOperands(c.args); err != nil {
		return err
	}
	if err := b.checkDistinct(c); err != nil {
		return err
	}
	switch c.op {
	case opExists, opNotExists:
		return b.checkIsPath(c.op, c.args[0])
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		return b.checkTypes(c.op, ordered, c.args)
	case opBetween:
		if err := b.checkTypes(c.op, ordered, c.args); err != nil {
			return err
		}
		return b.checkBounds(c.args[1], c.args[2])
	case opBeginsWith:
		return b.checkTypes(c.op, prefixes, c.args)
	case opType:
		return b.checkTypeName(c.args[1])
	}
	return nil
}

// checkDistinct rejects comparing a path with itself.
func (b *binding) checkDistinct(c *cond) error {
	first := c.args[0]
	if first.kind != operandPath {
		return nil
	}
	for _, arg := range c.args[1:] {
		if arg.kind == operandPath && b.samePath(first.path, arg.path) {
			return b.errorf("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", c.op, b.formatPath(first.path))
		}
	}
	return nil
}

// value returns the value of a value operand, or nil for other operands.
func (b *binding) value(o *operand) types.AttributeValue {
	if o.kind == operandValue {
		return b.values[o.ref]
	}
	return nil
}

// typeOf returns the type of an operand, or "" if it depends on the item.
func (b *binding) typeOf(o *operand) string {
	switch o.kind {
	case operandValue:
		return value.Type(b.values[o.ref])
	case operandSize:
		return "N"
	}
	return ""
}

func (b *binding) checkTypes(op op, allowed string, args []*operand) error {
	for _, arg := range args {
		if name := b.typeOf(arg); name != "" && !hasType(allowed, name) {
			return b.errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", op, name)
		}
	}
	return nil
}

func (b *binding) checkBounds(lowOperand, highOperand *operand) error {
	low, high := b.value(lowOperand), b.value(highOperand)
	if low == nil || high == nil {
		return nil
	}
	order, ok := value.Compare(low, high)
	if ok && order <= 0 {
		return nil
	}
	what := "requires upper bound to be greater than or equal to lower bound"
	if !ok {
		what = "requires same data type for lower and upper bounds"
	}
	return b.errorf("The BETWEEN operator %s; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s", what, formatScalar(low), formatScalar(high))
}

// formatScalar formats a scalar as AWS's messages do.
func formatScalar(v types.AttributeValue) string {
	text := ""
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		text = v.Value
	case *types.AttributeValueMemberN:
		text = v.Value
	case *types.AttributeValueMemberB:
		text = string(v.Value)
	}
	return "{" + value.Type(v) + ":" + text + "}"
}

// checkTypeName requires a value that names a type: attribute_type accepts no path.
func (b *binding) checkTypeName(o *operand) error {
	if o.kind == operandPath {
		return b.errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", opType, typeSet)
	}
	if err := b.checkTypes(opType, typeNames, []*operand{o}); err != nil {
		return err
	}
	name, ok := b.value(o).(*types.AttributeValueMemberS)
	if ok && !hasType(allTypes, name.Value) {
		return b.errorf("Invalid attribute type name found; type: %s, valid types: %s", name.Value, typeSet)
	}
	return nil
}

func (b *binding) checkOperands(operands []*operand) error {
	for _, o := range operands {
		if err := b.checkOperand(o); err != nil {
			return err
		}
	}
	return nil
}

func (b *binding) checkOperand(o *operand) error {
	if err := b.checkOperands(o.args); err != nil {
		return err
	}
	switch o.kind {
	case operandPath:
		return b.checkPath(o.path)
	case operandValue:
		if b.values[o.ref] == nil {
			return b.errorf("An expression attribute value used in expression is not defined; attribute value: %s", b.Parsed.values[o.ref])
		}
	case operandIfNotExists:
		return b.checkIsPath(opIfNotExists, o.args[0])
	case operandSize:
		return b.checkTypes(opSize, sized, o.args)
	case operandListAppend:
		return b.checkTypes(opListAppend, lists, o.args)
	case operandAdd:
		return b.checkTypes("+", summable, o.args)
	case operandSubtract:
		return b.checkTypes("-", summable, o.args)
	}
	return nil
}

func (b *binding) checkIsPath(op op, o *operand) error {
	if o.kind != operandPath {
		return b.errorf("Operator or function requires a document path; operator or function: %s", op)
	}
	return nil
}

// checkPath rejects undefined #names.
func (b *binding) checkPath(p path) error {
	for _, s := range p {
		if s.kind == stepPlaceholder && b.names[s.index] == "" {
			return b.errorf("An expression attribute name used in the document path is not defined; attribute name: %s", b.Parsed.names[s.index])
		}
	}
	return nil
}

func (b *binding) checkAction(a action) error {
	if a.arg == nil {
		return nil
	}
	if err := b.checkOperand(a.arg); err != nil {
		return err
	}
	allowed := allTypes
	switch a.verb {
	case verbAdd:
		allowed = addable
	case verbDelete:
		allowed = deletable
	}
	if v := b.value(a.arg); v != nil && !hasType(allowed, value.Type(v)) {
		return b.errorf("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", a.verb, legacyTypeName(v), a.verb)
	}
	return nil
}

// legacyTypeName is what AWS calls a type in messages about ADD and DELETE.
func legacyTypeName(v types.AttributeValue) string {
	switch value.Type(v) {
	case "S":
		return "STRING"
	case "N":
		return "NUMBER"
	case "B":
		return "BINARY"
	case "BOOL":
		return "BOOLEAN"
	case "L":
		return "LIST"
	case "M":
		return "MAP"
	}
	return value.Type(v)
}
