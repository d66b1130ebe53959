package tabletheory

import (
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// keyAttribute encodes the value of a key attribute. It must have the key's type
// and not be empty.
func keyAttribute(path *model.Path, value any) (types.AttributeValue, error) {
	av, err := path.Encode(value)
	if err != nil {
		return nil, err
	}
	if kind, empty := kindOf(av); kind != path.Field.Key {
		return nil, fmt.Errorf("key %s needs a value of type %s, got %s", path.Field.Name, path.Field.Key, describe(value))
	} else if empty {
		return nil, fmt.Errorf("key %s must not be empty", path.Field.Name)
	}
	return av, nil
}

// kindOf returns the type of a key attribute, or "" for other types, and whether
// it is empty.
func kindOf(av types.AttributeValue) (kind types.ScalarAttributeType, empty bool) {
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		return types.ScalarAttributeTypeS, v.Value == ""
	case *types.AttributeValueMemberN:
		return types.ScalarAttributeTypeN, v.Value == ""
	case *types.AttributeValueMemberB:
		return types.ScalarAttributeTypeB, len(v.Value) == 0
	}
	return "", false
}

// keyOf returns the key in a caller's value: a struct of the model, a pointer to
// one or, in a model without a sort key, a bare partition key.
func (t *target) keyOf(v any) (model.Item, error) {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if value.IsValid() && value.Type() == t.model.Type {
		return t.model.EncodeKey(value)
	}
	if t.model.Range != nil {
		return nil, fmt.Errorf("%v has a sort key, so its keys must be structs, not %s", t.model.Type, describe(v))
	}
	av, err := keyAttribute(t.model.Hash.Path(), v)
	if err != nil {
		return nil, err
	}
	return model.Item{t.model.Hash.Attribute: av}, nil
}
