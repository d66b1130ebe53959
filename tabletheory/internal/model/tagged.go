package model

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// fieldCodec returns the codec of a field: the codec of its type, unless the tag
// selects another form.
func (k *compiler) fieldCodec(t reflect.Type, tag tag, n naming) (*codec, error) {
	switch {
	case tag.json:
		return jsonCodec(t), nil
	case tag.set:
		return k.set(t, n)
	case tag.binary:
		return throughPointer(t, binaryCodec)
	case tag.ttl:
		return throughPointer(t, func(t reflect.Type) (*codec, error) {
			if c := (&codec{typ: t}); c.useTime(true) {
				return c, nil
			}
			return k.codec(t, n)
		})
	}
	return k.codec(t, n)
}

// throughPointer makes the codec of a type or of a pointer to it.
func throughPointer(t reflect.Type, make func(reflect.Type) (*codec, error)) (*codec, error) {
	if t.Kind() != reflect.Pointer {
		return make(t)
	}
	elem, err := make(t.Elem())
	if err != nil {
		return nil, err
	}
	c := &codec{typ: t}
	c.pointTo(elem)
	return c, nil
}

// jsonCodec returns the codec of a field with the tag json: S, with a JSON
// document. nil is NULL.
func jsonCodec(t reflect.Type) *codec {
	c := &codec{typ: t, json: true}
	useScalar(c, formS, func(_ *encoder, v reflect.Value, content *string) error {
		document, err := json.Marshal(addressable(v).Interface())
		*content = string(document)
		return err
	}, func(document string, v reflect.Value) error {
		fresh := reflect.New(t)
		if err := json.Unmarshal([]byte(document), fresh.Interface()); err != nil {
			return err
		}
		v.Set(fresh.Elem())
		return nil
	})
	c.nilIsNull()
	return c
}

// binaryCodec returns the codec of a field with the tag binary: B, with the
// bytes of a string, slice or array, or of MarshalBinary.
func binaryCodec(t reflect.Type) (*codec, error) {
	if hasMethods(t, reflect.TypeFor[encoding.BinaryMarshaler]()) && hasMethods(t, reflect.TypeFor[encoding.BinaryUnmarshaler]()) {
		return ownBinary(t), nil
	}
	c := &codec{typ: t}
	switch {
	case t.Kind() == reflect.String:
		c.useB(func(v reflect.Value) ([]byte, error) { return []byte(v.String()), nil },
			func(b []byte, v reflect.Value) error { v.SetString(string(b)); return nil })
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8:
		c.useBytes()
	default:
		return nil, fmt.Errorf("the tag binary takes strings, []byte and types with MarshalBinary and UnmarshalBinary, not %v", t)
	}
	return c, nil
}

func ownBinary(t reflect.Type) *codec {
	c := &codec{typ: t}
	c.useB(func(v reflect.Value) ([]byte, error) {
		b, err := addressable(v).Interface().(encoding.BinaryMarshaler).MarshalBinary()
		return cloneBytes(b), err
	}, func(b []byte, v reflect.Value) error {
		return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(cloneBytes(b))
	})
	return c
}
