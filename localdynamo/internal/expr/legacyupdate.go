package expr

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// AttributeUpdates binds the AttributeUpdates parameter. No updates return a nil
// Update.
func AttributeUpdates(updates map[string]types.AttributeValueUpdate) (*Update, error) {
	if len(updates) == 0 {
		return nil, nil
	}
	l := newLegacy(KindAttributeUpdates)
	names := slices.Sorted(maps.Keys(updates))
	for _, name := range names {
		switch a := updates[name].Action; a {
		case "", types.AttributeActionPut, types.AttributeActionAdd, types.AttributeActionDelete:
		default:
			return nil, fmt.Errorf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [ADD, PUT, DELETE]", a, l.member(name, "action"))
		}
	}
	touched := &branch{}
	for _, name := range names {
		a, err := l.update(name, updates[name])
		if err != nil {
			return nil, err
		}
		l.actions = append(l.actions, a)
		if err := l.insert(touched, a.path); err != nil {
			return nil, err
		}
	}
	return &Update{binding: l.binding, touched: newProjection(touched)}, nil
}

// update converts an element to an action of an update expression.
func (l *legacy) update(name string, u types.AttributeValueUpdate) (action, error) {
	a := action{path: attributePath(name)}
	if err := value.CheckName(name); err != nil {
		return a, err
	}
	if u.Value == nil {
		if u.Action != types.AttributeActionDelete {
			return a, invalidValue("Only DELETE action is allowed when no attribute value is specified")
		}
		a.verb = verbRemove
		return a, nil
	}
	v, err := value.Normalize(u.Value)
	if err != nil {
		return a, err
	}
	a.verb, a.arg = verbSet, l.operand(v)
	switch u.Action {
	case types.AttributeActionAdd:
		a.verb = verbAdd
		if kind := value.Type(v); !hasType(addable, kind) && !hasType(lists, kind) {
			return a, invalidValue("ADD action is not supported for the type %s", kind)
		}
	case types.AttributeActionDelete:
		a.verb = verbDelete
		if kind := value.Type(v); !hasType(deletable, kind) {
			return a, invalidValue("DELETE action with value is not supported for the type %s", kind)
		}
	}
	return a, nil
}
