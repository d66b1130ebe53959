package model_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// TestAgainstAttributeValue generates struct types and values. This package must
// encode them as attributevalue does, each must read what the other wrote, and
// the result must be the original value.
func TestAgainstAttributeValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawStruct(t, 3)
		value := drawValue(t, typ)
		registry := model.NewRegistry()
		ours, err := registry.EncodeValue(value.Interface())
		if err != nil {
			t.Fatalf("encode %v: %v", typ, err)
		}
		theirs, err := attributevalue.Marshal(value.Interface())
		if err != nil {
			t.Fatalf("attributevalue: encode %v: %v", typ, err)
		}
		if diff := cmp.Diff(theirs, ours, unexported); diff != "" {
			t.Fatalf("%v is not encoded as by attributevalue (-theirs +ours):\n%s", typ, diff)
		}
		read, readByThem := reflect.New(typ), reflect.New(typ)
		if err := registry.DecodeValue(theirs, read.Interface()); err != nil {
			t.Fatalf("decode %v: %v", typ, err)
		}
		if !reflect.DeepEqual(read.Elem().Interface(), value.Interface()) {
			t.Fatalf("decoded %#v, want %#v", read.Elem(), value)
		}
		if err := attributevalue.Unmarshal(ours, readByThem.Interface()); err != nil {
			t.Fatalf("attributevalue: decode %v: %v", typ, err)
		}
		if !reflect.DeepEqual(readByThem.Elem().Interface(), value.Interface()) {
			t.Fatalf("attributevalue decoded %#v, want %#v", readByThem.Elem(), value)
		}
	})
}

// scalars are the types that both encode in the same way.
var scalars = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[3]byte](),
	reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
	reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[celsius](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[attributevalue.Number](),
}

func drawType(t *rapid.T, depth int) reflect.Type {
	if depth == 0 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	switch rapid.SampledFrom([]string{"scalar", "pointer", "slice", "array", "map", "struct"}).Draw(t, "kind") {
	case "pointer": // to a type that is never nil: a pointer to nil decodes to nil
		typ := drawType(t, 0)
		if typ.Kind() == reflect.Slice {
			typ = drawStruct(t, depth-1)
		}
		return reflect.PointerTo(typ)
	case "slice":
		elem := drawType(t, depth-1)
		if elem == reflect.TypeFor[[]byte]() { // which attributevalue encodes as a set
			return elem
		}
		return reflect.SliceOf(elem)
	case "array":
		return reflect.ArrayOf(2, drawType(t, depth-1))
	case "map":
		key := rapid.SampledFrom([]reflect.Type{
			reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint64](), reflect.TypeFor[bool](), reflect.TypeFor[float64](),
		}).Draw(t, "key")
		return reflect.MapOf(key, drawType(t, depth-1))
	case "struct":
		return drawStruct(t, depth-1)
	}
	return drawType(t, 0)
}

func drawStruct(t *rapid.T, depth int) reflect.Type {
	fields := make([]reflect.StructField, rapid.IntRange(0, 6).Draw(t, "fields"))
	for i := range fields {
		name := fmt.Sprintf("F%d", i)
		tag := fmt.Sprintf(`theorydb:"attr:%s"`, name)
		typ := drawType(t, depth)
		switch k := typ.Kind(); {
		case typ == reflect.TypeFor[[]string]():
			tag = fmt.Sprintf(`theorydb:"attr:%s,set" dynamodbav:",stringset,omitempty"`, name)
		case (k == reflect.String || k == reflect.Int || k == reflect.Bool || k == reflect.Pointer) && rapid.Bool().Draw(t, "omitempty"):
			tag = fmt.Sprintf(`theorydb:"attr:%s,omitempty" dynamodbav:",omitempty"`, name)
		}
		fields[i] = reflect.StructField{Name: name, Type: typ, Tag: reflect.StructTag(tag)}
	}
	return reflect.StructOf(fields)
}

func drawValue(t *rapid.T, typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ {
	case reflect.TypeFor[time.Time]():
		at := time.Unix(rapid.Int64Range(-62167219200, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		v.Set(reflect.ValueOf(at.UTC()))
		return v
	case reflect.TypeFor[attributevalue.Number]():
		v.SetString(rapid.StringMatching(`-?[1-9][0-9]{0,30}(\.[0-9]{0,6}[1-9])?(e-?[1-8][0-9])?`).Draw(t, "number"))
		return v
	}
	switch typ.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.String:
		v.SetString(rapid.StringN(0, 10, -1).Draw(t, "string"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int") >> (64 - typ.Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint") >> (64 - typ.Bits()))
	case reflect.Float32:
		// attributevalue encodes the largest float32 but does not decode it.
		v.SetFloat(float64(rapid.Float32Range(-3e38, 3e38).Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(drawFloat(t))
	case reflect.Struct:
		for i := range typ.NumField() {
			v.Field(i).Set(drawValue(t, typ.Field(i).Type))
		}
	default:
		drawContainer(t, v)
	}
	return v
}

// drawFloat generates a float in DynamoDB's range.
func drawFloat(t *rapid.T) float64 {
	return rapid.Float64().Filter(func(f float64) bool {
		return f == 0 || f > 1e-130 && f < 1e126 || f < -1e-130 && f > -1e126
	}).Draw(t, "float64")
}

func drawContainer(t *rapid.T, v reflect.Value) {
	typ := v.Type()
	if typ.Kind() != reflect.Array && rapid.IntRange(0, 9).Draw(t, "nil") == 0 {
		return
	}
	n := rapid.IntRange(0, 12).Draw(t, "len")
	switch typ.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(drawValue(t, typ.Elem()))
	case reflect.Array:
		for i := range typ.Len() {
			v.Index(i).Set(drawValue(t, typ.Elem()))
		}
	case reflect.Slice:
		if typ == reflect.TypeFor[[]string]() { // a set, which must not be empty
			if members := rapid.SliceOfNDistinct(rapid.String(), 0, 12, rapid.ID).Draw(t, "members"); len(members) > 0 {
				v.Set(reflect.ValueOf(members))
			}
			return
		}
		v.Set(reflect.MakeSlice(typ, n, n))
		for i := range n {
			v.Index(i).Set(drawValue(t, typ.Elem()))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		for range n {
			key := drawValue(t, typ.Key())
			if key.Kind() != reflect.String || key.Len() > 0 {
				v.SetMapIndex(key, drawValue(t, typ.Elem()))
			}
		}
	}
}
