package localdynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// document is a stored item as an expr.Document; an empty item has no
// attributes. It decodes attributes on demand. err is set if decoding failed.
type document struct {
	item value.Item
	err  error
}

// Attribute implements expr.Document.
func (s *document) Attribute(name string) types.AttributeValue {
	if s.item == "" {
		return nil
	}
	v, err := s.item.Lookup(name)
	if err != nil {
		s.err = corrupt(err)
	}
	return v
}

// decode decodes all attributes of an item, and returns nil for "".
func decode(item value.Item) (map[string]types.AttributeValue, error) {
	if item == "" {
		return nil, nil
	}
	fields, err := item.Decode()
	if err != nil {
		return nil, corrupt(err)
	}
	return fields, nil
}

// corrupt wraps the error of decoding a stored item in ErrCorrupt.
func corrupt(err error) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
