package tabletheory

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// WithConverter encodes and decodes values of type T with these functions,
// wherever they occur: in fields, behind pointers, in lists and in maps. It
// takes precedence over every other encoding of T. encode must return NULL, not
// nil, for no value; decode gets NULL too. Both must be safe for concurrent use
// and must not retain or change their arguments. Keys of Go maps are not
// converted.
func WithConverter[T any](encode func(T) (types.AttributeValue, error), decode func(types.AttributeValue) (T, error)) Option {
	converter := model.Converter{
		Type: reflect.TypeFor[T](),
		Encode: func(v reflect.Value) (types.AttributeValue, error) {
			value, _ := v.Interface().(T) // fails only for a nil interface
			return encode(value)
		},
		Decode: func(av types.AttributeValue, v reflect.Value) error {
			decoded, err := decode(av)
			if err == nil {
				v.Set(reflect.ValueOf(&decoded).Elem())
			}
			return err
		},
	}
	return func(s *settings) { s.converters = append(s.converters, converter) }
}
