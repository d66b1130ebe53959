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
		s.fault = damaged(err)
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
		return nil, damaged(err)
	}
	return fields, nil
}

// damaged says that an item cannot be read on account of the file.
func damaged(err error) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
