package spec_test

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/tabletheory"
)

type valueVector struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Value     attribute  `json:"value"`
	OmitEmpty bool       `json:"omitempty,omitempty"`
	Attribute *attribute `json:"attribute,omitempty"`
}

type timeVector struct {
	Name      string    `json:"name"`
	Value     time.Time `json:"value"`
	Attribute attribute `json:"attribute"`
}

type ttlVector struct {
	Name      string    `json:"name"`
	Now       int64     `json:"now_ms"`
	Attribute attribute `json:"attribute"`
}

type unstorable struct {
	Name  string    `json:"name"`
	Type  string    `json:"type"`
	Value attribute `json:"value"`
	Error string    `json:"error"`
}

func TestEncodings(t *testing.T) {
	type file struct {
		Values  []valueVector `json:"values"`
		Times   []timeVector  `json:"times"`
		TTLs    []ttlVector   `json:"ttls"`
		Refused []unstorable  `json:"refused"`
	}
	run(t, "encodings.json", func(f *file) {
		for i := range f.Values {
			f.Values[i].answer(t)
		}
		for i := range f.Times {
			v := &f.Times[i]
			v.Attribute.AttributeValue = stored(t, v.Name, "", v.Value)
		}
		for i := range f.TTLs {
			v := &f.TTLs[i]
			v.Attribute.AttributeValue = stored(t, v.Name, "ttl,", time.UnixMilli(v.Now))
		}
		for i := range f.Refused {
			v := &f.Refused[i]
			_, err := encode(t, tagOf(v.Type), native(t, v.Type, v.Value.AttributeValue))
			if v.Error = nameOf(t, err); err == nil {
				t.Errorf("%s: accepted", v.Name)
			}
		}
	})
}

func (v *valueVector) answer(t *testing.T) {
	t.Helper()
	tag := tagOf(v.Type)
	if v.OmitEmpty {
		tag += "omitempty,"
	}
	value := native(t, v.Type, v.Value.AttributeValue)
	i, err := encode(t, tag, value)
	if err != nil {
		t.Errorf("%s: %v", v.Name, err)
	}
	v.Attribute = nil
	if av, ok := i["value"]; ok {
		v.Attribute = &attribute{av}
		v.readBack(t, tag, i)
	}
}

// readBack checks that reading an attribute returns the value that was written.
func (v *valueVector) readBack(t *testing.T, tag string, written item) {
	t.Helper()
	dest := reflect.New(model(tag, goType(t, v.Type)))
	db := tabletheory.New(nil)
	if err := db.UnmarshalItem(t.Context(), written, dest.Interface()); err != nil {
		t.Errorf("%s: %v", v.Name, err)
	}
	again, err := db.MarshalItem(t.Context(), dest.Interface())
	if err != nil {
		t.Errorf("%s: %v", v.Name, err)
	}
	if d := cmp.Diff(jsonOf(t, written), jsonOf(t, item(again))); d != "" {
		t.Errorf("%s: the attribute as written (-), and after a read and a second write (+):\n%s", v.Name, d)
	}
}

// stored returns the attribute that encodes a Go value.
func stored(t *testing.T, name, tag string, value any) types.AttributeValue {
	t.Helper()
	i, err := encode(t, tag, value)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return i["value"]
}

// encode marshals a model with the keys and one field, which has the value.
func encode(t *testing.T, tag string, value any) (item, error) {
	t.Helper()
	typ := reflect.TypeFor[any]()
	if value != nil {
		typ = reflect.TypeOf(value)
	}
	m := reflect.New(model(tag, typ)).Elem()
	m.Field(0).SetString("p")
	m.Field(1).SetString("s")
	if value != nil {
		m.Field(2).Set(reflect.ValueOf(value))
	}
	return tabletheory.New(nil).MarshalItem(t.Context(), m.Addr().Interface())
}

func model(tag string, value reflect.Type) reflect.Type {
	text := reflect.TypeFor[string]()
	return reflect.StructOf([]reflect.StructField{
		{Name: "PK", Type: text, Tag: `theorydb:"pk,attr:pk"`},
		{Name: "SK", Type: text, Tag: `theorydb:"sk,attr:sk"`},
		{Name: "Value", Type: value, Tag: reflect.StructTag(`theorydb:"` + tag + `attr:value"`)},
	})
}

func tagOf(kind string) string {
	switch kind {
	case "SS", "NS", "BS":
		return "set,"
	}
	return ""
}

func goType(t *testing.T, kind string) reflect.Type {
	t.Helper()
	switch kind {
	case "S":
		return reflect.TypeFor[string]()
	case "N":
		return reflect.TypeFor[tabletheory.Number]()
	case "B":
		return reflect.TypeFor[[]byte]()
	case "BOOL":
		return reflect.TypeFor[bool]()
	case "NULL":
		return reflect.TypeFor[any]()
	case "L":
		return reflect.TypeFor[[]any]()
	case "M":
		return reflect.TypeFor[map[string]any]()
	case "SS":
		return reflect.TypeFor[map[string]bool]()
	case "NS":
		return reflect.TypeFor[[]tabletheory.Number]()
	case "BS":
		return reflect.TypeFor[[][]byte]()
	}
	t.Fatalf("unknown attribute type %q", kind)
	return nil
}

// native converts an attribute to a Go value of the type that goType returns.
func native(t *testing.T, kind string, av types.AttributeValue) any {
	t.Helper()
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil {
			return n // a Number of "0" is not the zero value
		}
		return tabletheory.Number(v.Value)
	case *types.AttributeValueMemberB:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberNULL:
		return nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, member := range v.Value {
			list[i] = native(t, "", member)
		}
		return list
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(v.Value))
		for name, member := range v.Value {
			m[name] = native(t, "", member)
		}
		return m
	case *types.AttributeValueMemberSS:
		set := make(map[string]bool, len(v.Value))
		for _, member := range v.Value {
			set[member] = true
		}
		return set
	case *types.AttributeValueMemberNS:
		set := make([]tabletheory.Number, len(v.Value))
		for i, member := range v.Value {
			set[i] = tabletheory.Number(member)
		}
		return set
	case *types.AttributeValueMemberBS:
		return v.Value
	}
	t.Fatalf("attribute type %q has no Go value for %T", kind, av)
	return nil
}

func jsonOf(t *testing.T, i item) string {
	t.Helper()
	text, err := i.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
