package localdynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// stored is an item on disk as a document; the empty one is no item. It
// decodes only what it is asked for, and keeps the first fault.
type stored struct {
	item  value.Item
	fault error
}

// Attribute implements expr.Document.
func (s *stored) Attribute(name string) types.AttributeValue {
	if s.item == "" {
		return nil
	}
	v, err := s.item.Lookup(name)
	if err != nil {
		s.fault = err
	}
	return v
}

// decode returns a whole item; nil if there is none.
func decode(item value.Item) (map[string]types.AttributeValue, error) {
	if item == "" {
		return nil, nil
	}
	fields, err := item.Decode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fields, nil
}
