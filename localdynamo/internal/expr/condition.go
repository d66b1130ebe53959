package expr

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Document is what conditions read: an item, or a missing item, which has no
// attributes.
type Document interface {
	// Attribute returns a top-level attribute, or nil if it is absent. The work may
	// grow with the number of attributes.
	Attribute(name string) types.AttributeValue

	// Select calls fn for the attributes that are present, in the order of names,
	// which must be sorted. It is for any number of names: the work grows with the
	// number of attributes, or with the number of names, but not with their product.
	Select(names []string, fn func(name string, v types.AttributeValue))
}

// Condition is a bound condition or filter.
type Condition struct {
	binding
	operands int      // number of operands, a bound for the paths that Match follows
	roots    []string // what Roots returns; nil if there are at most maxSingle operands
}

// maxSingle is the maximum number of operands of a condition that are looked up one by
// one. The attributes of more operands are selected together.
const maxSingle = 8

// Condition binds a condition or filter expression of the given kind. A nil text, for
// an absent parameter, returns a nil Condition.
func (s *Scope) Condition(kind Kind, text *string) (*Condition, error) {
	if text == nil {
		return nil, nil
	}
	b, err := s.bind(kind, *text)
	if err != nil {
		return nil, err
	}
	if err := b.checkCond(b.cond); err != nil {
		return nil, err
	}
	return newCondition(b), nil
}

// newCondition returns the condition of a valid tree.
func newCondition(b binding) *Condition {
	c := &Condition{binding: b, operands: countOperands(b.cond)}
	if c.operands > maxSingle {
		c.roots = c.Roots()
	}
	return c
}

func countOperands(c *cond) int {
	n := len(c.args)
	for _, child := range c.children {
		n += countOperands(child)
	}
	return n
}

// Operands returns the number of operands, to which the work of Match is proportional.
func (c *Condition) Operands() int {
	if c == nil {
		return 0
	}
	return c.operands
}

// Match reports whether the document satisfies c. A nil Condition always matches. A
// comparison with an absent attribute, or with a value of another type, is false,
// except <>, which is true.
func (c *Condition) Match(d Document) bool {
	if c == nil {
		return true
	}
	if c.roots != nil {
		selected := make(Fields)
		d.Select(c.roots, func(name string, v types.AttributeValue) { selected[name] = v })
		d = selected
	}
	return c.match(c.cond, d)
}

// Mentions returns the first of names that is the root of a path in c, or "".
func (c *Condition) Mentions(names ...string) string {
	if c == nil {
		return ""
	}
	return c.mentions(c.cond, names)
}

func (b *binding) mentions(c *cond, names []string) string {
	for _, child := range c.children {
		if found := b.mentions(child, names); found != "" {
			return found
		}
	}
	for _, arg := range c.args {
		for arg.kind == operandSize {
			arg = arg.args[0]
		}
		if arg.kind != operandPath {
			continue
		}
		for _, name := range names {
			if b.name(arg.path[0]) == name {
				return name
			}
		}
	}
	return ""
}

// Roots returns the top-level attributes that c reads, sorted.
func (c *Condition) Roots() []string {
	if c == nil {
		return nil
	}
	found := map[string]struct{}{}
	c.addRoots(c.cond, found)
	return slices.Sorted(maps.Keys(found))
}

func (b *binding) addRoots(c *cond, found map[string]struct{}) {
	for _, child := range c.children {
		b.addRoots(child, found)
	}
	for _, arg := range c.args {
		for arg.kind == operandSize {
			arg = arg.args[0]
		}
		if arg.kind == operandPath {
			found[b.name(arg.path[0])] = struct{}{}
		}
	}
}

func (b *binding) match(c *cond, d Document) bool {
	switch c.op {
	case opAnd:
		for _, child := range c.children {
			if !b.match(child, d) {
				return false
			}
		}
		return true
	case opOr:
		for _, child := range c.children {
			if b.match(child, d) {
				return true
			}
		}
		return false
	case opNot:
		return !b.match(c.children[0], d)
	case opExists:
		return b.find(c.args[0].path, d) != nil
	case opNotExists:
		return b.find(c.args[0].path, d) == nil
	}
	return b.compare(c, d)
}

func (b *binding) compare(c *cond, d Document) bool {
	x, y := b.operand(c.args[0], d), b.operand(c.args[1], d)
	switch c.op {
	case opEqual:
		return x != nil && y != nil && value.Equal(x, y)
	case opNotEqual:
		return x == nil || y == nil || !value.Equal(x, y)
	case opIn:
		for _, arg := range c.args[1:] {
			if z := b.operand(arg, d); x != nil && z != nil && value.Equal(x, z) {
				return true
			}
		}
		return false
	case opBetween:
		return inOrder(opLessEqual, y, x) && inOrder(opLessEqual, x, b.operand(c.args[2], d))
	case opType:
		name, ok := y.(*types.AttributeValueMemberS)
		return ok && x != nil && value.Type(x) == name.Value
	case opBeginsWith:
		return beginsWith(x, y)
	case opContains:
		return contains(x, y)
	}
	return inOrder(c.op, x, y)
}

func inOrder(op op, x, y types.AttributeValue) bool {
	order, ok := value.Compare(x, y)
	if !ok {
		return false
	}
	switch op {
	case opLess:
		return order < 0
	case opLessEqual:
		return order <= 0
	case opGreater:
		return order > 0
	}
	return order >= 0
}

func beginsWith(x, y types.AttributeValue) bool {
	switch x := x.(type) {
	case *types.AttributeValueMemberS:
		y, ok := y.(*types.AttributeValueMemberS)
		return ok && strings.HasPrefix(x.Value, y.Value)
	case *types.AttributeValueMemberB:
		y, ok := y.(*types.AttributeValueMemberB)
		return ok && bytes.HasPrefix(x.Value, y.Value)
	}
	return false
}

// contains reports whether y is a substring of the string or binary x, or a member of
// the set or list x.
func contains(x, y types.AttributeValue) bool {
	switch x := x.(type) {
	case *types.AttributeValueMemberS:
		y, ok := y.(*types.AttributeValueMemberS)
		return ok && strings.Contains(x.Value, y.Value)
	case *types.AttributeValueMemberB:
		y, ok := y.(*types.AttributeValueMemberB)
		return ok && bytes.Contains(x.Value, y.Value)
	case *types.AttributeValueMemberL:
		for _, e := range x.Value {
			if y != nil && value.Equal(e, y) {
				return true
			}
		}
	case *types.AttributeValueMemberSS, *types.AttributeValueMemberNS, *types.AttributeValueMemberBS:
		return isMember(x, y)
	}
	return false
}

func isMember(set, v types.AttributeValue) bool {
	switch set := set.(type) {
	case *types.AttributeValueMemberSS:
		v, ok := v.(*types.AttributeValueMemberS)
		return ok && slices.Contains(set.Value, v.Value)
	case *types.AttributeValueMemberNS:
		v, ok := v.(*types.AttributeValueMemberN)
		return ok && slices.Contains(set.Value, v.Value)
	case *types.AttributeValueMemberBS:
		v, ok := v.(*types.AttributeValueMemberB)
		if !ok {
			return false
		}
		for _, member := range set.Value {
			if bytes.Equal(member, v.Value) {
				return true
			}
		}
	}
	return false
}

// operand evaluates an operand of a condition; nil means absent.
func (b *binding) operand(o *operand, d Document) types.AttributeValue {
	switch o.kind {
	case operandValue:
		return b.values[o.ref]
	case operandSize:
		n, ok := size(b.operand(o.args[0], d))
		if !ok {
			return nil
		}
		return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
	}
	return b.find(o.path, d)
}

// size returns the number of UTF-16 code units of a string (as DynamoDB counts
// characters), of bytes of a binary, or of members of anything else.
func size(v types.AttributeValue) (int, bool) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		n := 0
		for _, r := range v.Value {
			n += utf16.RuneLen(r)
		}
		return n, true
	case *types.AttributeValueMemberB:
		return len(v.Value), true
	case *types.AttributeValueMemberL:
		return len(v.Value), true
	case *types.AttributeValueMemberM:
		return len(v.Value), true
	case *types.AttributeValueMemberSS:
		return len(v.Value), true
	case *types.AttributeValueMemberNS:
		return len(v.Value), true
	case *types.AttributeValueMemberBS:
		return len(v.Value), true
	}
	return 0, false
}

// find returns the value at path p, or nil if there is none.
func (b *binding) find(p path, d Document) types.AttributeValue {
	return b.descend(d.Attribute(b.name(p[0])), p[1:])
}

// descend returns the value that steps lead to from v, or nil if there is none.
func (b *binding) descend(v types.AttributeValue, steps []step) types.AttributeValue {
	for _, s := range steps {
		switch container := v.(type) {
		case *types.AttributeValueMemberM:
			if s.kind == stepIndex {
				return nil
			}
			v = container.Value[b.name(s)]
		case *types.AttributeValueMemberL:
			if s.kind != stepIndex || s.index >= len(container.Value) {
				return nil
			}
			v = container.Value[s.index]
		default:
			return nil
		}
	}
	return v
}
