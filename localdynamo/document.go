package localdynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// document is a stored item as an expr.Document; an empty item has no
// attributes. It decodes attributes on demand. err is set if decoding failed.
type document struct {
	item   value.Item
	loaded expr.Fields // of load; nil: Attribute looks in item
	err    error
}

// load decodes the named attributes, which must be sorted, in one pass. Afterwards
// Attribute finds only these.
func (s *document) load(names []string) {
	loaded := make(expr.Fields)
	s.Select(names, func(name string, v types.AttributeValue) { loaded[name] = v })
	s.loaded = loaded
}

// Attribute implements expr.Document.
func (s *document) Attribute(name string) types.AttributeValue {
	if s.loaded != nil {
		return s.loaded[name]
	}
	if s.item == "" {
		return nil
	}
	v, err := s.item.Lookup(name)
	if err != nil {
		s.err = corrupt(err)
	}
	return v
}

// Select implements expr.Document.
func (s *document) Select(names []string, fn func(name string, v types.AttributeValue)) {
	if s.item == "" {
		return
	}
	if err := s.item.Find(names, fn); err != nil {
		s.err = corrupt(err)
	}
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
