package tabletheory

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// WithConverter stores values of type T in a way of its own, wherever they
// stand: in fields, behind pointers, in lists and in maps. It comes before every
// other way that T has. encode returns NULL for nothing, never nil; decode is
// given NULL too. Both have to be safe for concurrent use, and may not keep or
// change what they are given. The keys of Go maps are not converted.
func WithConverter[T any](encode func(T) (types.AttributeValue, error), decode func(types.AttributeValue) (T, error)) Option {
	converter := model.Converter{
		Type: reflect.TypeFor[T](),
		Encode: func(v reflect.Value) (types.AttributeValue, error) {
			value, _ := v.Interface().(T) // fails only for an interface that is nil
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
