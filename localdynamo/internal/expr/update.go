package expr

import (
	"cmp"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Errors for updates that are invalid for the given item.
var (
	errNoAttribute = errors.New("The provided expression refers to an attribute that does not exist in the item")
	errBadOperand  = errors.New("An operand in the update expression has an incorrect data type")
	errBadPath     = errors.New("The document path provided in the update expression is invalid for update")
	errUnlikeTypes = errors.New("Type mismatch for attribute to update") // replaces errBadOperand in AttributeUpdates
)

// ErrItemSize means that an update makes the item larger than value.MaxItemSize.
var ErrItemSize = errors.New("Item size to update has exceeded the maximum allowed size")

// Update is a bound update expression.
type Update struct {
	binding
	touched *Projection
}

// Update binds an update expression. A nil text returns a nil Update, which changes
// nothing.
func (s *Scope) Update(text *string) (*Update, error) {
	if text == nil {
		return nil, nil
	}
	b, err := s.bind(KindUpdate, *text)
	if err != nil {
		return nil, err
	}
	touched := &branch{}
	for _, a := range b.actions {
		if err := b.insert(touched, a.path); err != nil {
			return nil, err
		}
	}
	for _, a := range b.actions {
		if err := b.checkAction(a); err != nil {
			return nil, err
		}
	}
	return &Update{binding: b, touched: newProjection(touched)}, nil
}

// Touches reports whether u writes the attribute or a part of it.
func (u *Update) Touches(name string) bool {
	return u != nil && u.touched.root.names[name] != nil
}

// Assigned returns the value that u sets the attribute to if it is a :value of the
// request, otherwise nil.
func (u *Update) Assigned(name string) types.AttributeValue {
	if u == nil {
		return nil
	}
	for _, a := range u.actions {
		if a.verb == verbSet && len(a.path) == 1 && u.name(a.path[0]) == name && a.arg.kind == operandValue {
			return u.values[a.arg.ref]
		}
	}
	return nil
}

// Creates reports whether u creates an item if none exists. An update of only REMOVE
// and DELETE does not; a nil Update does.
func (u *Update) Creates() bool {
	if u == nil {
		return true
	}
	return slices.ContainsFunc(u.actions, func(a action) bool { return a.verb == verbSet || a.verb == verbAdd })
}

// Touched returns the parts of d at the paths that u writes.
func (u *Update) Touched(d Document) map[string]types.AttributeValue {
	if u == nil {
		return nil
	}
	return u.touched.Apply(d)
}

// Fields is a decoded item as a Document.
type Fields map[string]types.AttributeValue

// Attribute implements Document.
func (f Fields) Attribute(name string) types.AttributeValue { return f[name] }

// Select implements Document.
func (f Fields) Select(names []string, fn func(name string, v types.AttributeValue)) {
	for _, name := range names {
		if v := f[name]; v != nil {
			fn(name, v)
		}
	}
}

// Apply updates item in place. After an error the contents of item are undefined. All
// operands are evaluated before the first change, so every action sees the original
// item.
func (u *Update) Apply(item map[string]types.AttributeValue) error {
	if u == nil {
		return nil
	}
	results, err := u.results(Fields(item))
	if errors.Is(err, errBadOperand) && u.kind == KindAttributeUpdates {
		return errUnlikeTypes
	}
	if err != nil {
		return err
	}
	e := edit{binding: &u.binding, root: &types.AttributeValueMemberM{Value: item}}
	for i, a := range u.actions {
		if err := e.write(a, results[i]); err != nil {
			return err
		}
	}
	e.closeGaps()
	return nil
}

// results computes what the actions write, in order. All of it will be in the item, at
// paths that do not overlap. So it is too large as soon as they are together: a few
// bytes of an expression can copy a large attribute, and so can each of the next.
func (u *Update) results(item Fields) ([]types.AttributeValue, error) {
	results := make([]types.AttributeValue, len(u.actions))
	size := 0
	for i, a := range u.actions {
		v, err := u.result(a, item)
		if err != nil {
			return nil, err
		}
		if v != nil {
			size += value.Size(v)
		}
		if size > value.MaxItemSize {
			return nil, ErrItemSize
		}
		results[i] = v
	}
	return results, nil
}

// result computes the value that an action writes at its path; nil removes it.
func (u *Update) result(a action, item Fields) (types.AttributeValue, error) {
	switch a.verb {
	case verbSet:
		return u.compute(a.arg, item)
	case verbAdd:
		return add(u.find(a.path, item), u.values[a.arg.ref])
	case verbDelete:
		return subtractSet(u.find(a.path, item), u.values[a.arg.ref])
	}
	return nil, nil
}

// compute evaluates an operand. The result shares no memory with the item, which is
// about to be modified in place.
func (u *Update) compute(o *operand, item Fields) (types.AttributeValue, error) {
	switch o.kind {
	case operandValue:
		return u.values[o.ref], nil
	case operandPath:
		if v := u.find(o.path, item); v != nil {
			return value.Clone(v), nil
		}
		return nil, errNoAttribute
	case operandIfNotExists:
		if v := u.find(o.path, item); v != nil {
			return value.Clone(v), nil
		}
		return u.compute(o.args[1], item)
	}
	x, err := u.compute(o.args[0], item)
	if err != nil {
		return nil, err
	}
	y, err := u.compute(o.args[1], item)
	if err != nil {
		return nil, err
	}
	if o.kind == operandListAppend {
		return listAppend(x, y)
	}
	return sum(o.kind, x, y)
}

func listAppend(x, y types.AttributeValue) (types.AttributeValue, error) {
	a, okA := x.(*types.AttributeValueMemberL)
	b, okB := y.(*types.AttributeValueMemberL)
	if !okA || !okB {
		return nil, errBadOperand
	}
	return &types.AttributeValueMemberL{Value: slices.Concat(a.Value, b.Value)}, nil
}

func sum(kind operandKind, x, y types.AttributeValue) (types.AttributeValue, error) {
	a, okA := x.(*types.AttributeValueMemberN)
	b, okB := y.(*types.AttributeValueMemberN)
	if !okA || !okB {
		return nil, errBadOperand
	}
	compute := value.Add
	if kind == operandSubtract {
		compute = value.Subtract
	}
	n, err := compute(a.Value, b.Value)
	return &types.AttributeValueMemberN{Value: n}, err
}

// add implements ADD: the sum of numbers, the union of sets, or the concatenation of
// lists (only from AttributeUpdates; checkAction rejects lists in expressions).
func add(old, v types.AttributeValue) (types.AttributeValue, error) {
	if old == nil {
		return v, nil
	}
	if value.Type(old) != value.Type(v) {
		return nil, errBadOperand
	}
	switch v.(type) {
	case *types.AttributeValueMemberN:
		return sum(operandAdd, old, v)
	case *types.AttributeValueMemberL:
		return listAppend(old, v)
	}
	return value.Union(old, v), nil
}

// subtractSet implements DELETE. It returns nil for an empty result, because empty
// sets do not exist.
func subtractSet(old, v types.AttributeValue) (types.AttributeValue, error) {
	if old == nil {
		return nil, nil
	}
	if value.Type(old) != value.Type(v) {
		return nil, errBadOperand
	}
	return value.Difference(old, v), nil
}

// edit is an item being modified. The indexes of an update refer to the original
// lists, so removals and appends take effect only after all paths are followed: a
// removed element becomes nil, an appended one is recorded in lists.
type edit struct {
	*binding
	root  *types.AttributeValueMemberM
	lists map[*types.AttributeValueMemberL][]appended
}

// appended is an element whose index is at or past the end of its list.
type appended struct {
	index int
	v     types.AttributeValue
}

// write sets the value at the action's path to v; nil removes it.
func (e *edit) write(a action, v types.AttributeValue) error {
	last := len(a.path) - 1
	return e.assign(e.descend(e.root, a.path[:last]), a.path[last], v)
}

// assign sets or removes (v nil) an element of container, which is nil if the path
// does not exist.
func (e *edit) assign(container types.AttributeValue, s step, v types.AttributeValue) error {
	switch c := container.(type) {
	case *types.AttributeValueMemberM:
		switch {
		case s.kind == stepIndex:
			return errBadPath
		case v == nil:
			delete(c.Value, e.name(s))
		default:
			c.Value[e.name(s)] = v
		}
		return nil
	case *types.AttributeValueMemberL:
		if s.kind != stepIndex {
			return errBadPath
		}
		e.assignElement(c, s.index, v)
		return nil
	}
	return errBadPath
}

func (e *edit) assignElement(list *types.AttributeValueMemberL, index int, v types.AttributeValue) {
	beyond := index >= len(list.Value)
	if !beyond {
		list.Value[index] = v
		if v != nil {
			return
		}
	}
	if e.lists == nil {
		e.lists = make(map[*types.AttributeValueMemberL][]appended)
	}
	pending := e.lists[list]
	if beyond && v != nil {
		pending = append(pending, appended{index, v})
	}
	e.lists[list] = pending
}

// closeGaps deletes removed elements and appends the recorded ones, ordered by index.
func (e *edit) closeGaps() {
	for list, pending := range e.lists {
		list.Value = slices.DeleteFunc(list.Value, func(v types.AttributeValue) bool { return v == nil })
		slices.SortFunc(pending, func(a, b appended) int { return cmp.Compare(a.index, b.index) })
		for _, a := range pending {
			list.Value = append(list.Value, a.v)
		}
	}
}
