package model_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// FuzzDecode decodes arbitrary items into structs with fields of every type. It
// must not panic; errors are *DecodeError; and a decoded value that is encoded
// again decodes to the same value.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "m\x02pks\x01aswides\x03xyz", "m\x05namesS\x02\x01a\x01b", "m\x04nextm\x05nodesl\x02ztn\x031e9",
	} {
		f.Add([]byte(seed))
	}
	registry := model.NewRegistry()
	models := []reflect.Type{
		reflect.TypeFor[metadata](), reflect.TypeFor[wide](), reflect.TypeFor[document](), reflect.TypeFor[order](), reflect.TypeFor[nodeModel](),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range models {
			m, err := registry.Model(typ)
			if err != nil {
				t.Fatal(err)
			}
			fuzzModel(t, m, data)
		}
	})
}

// nodeModel contains itself in every way.
type nodeModel struct {
	key
	node
	Map map[string]*nodeModel
	Arr [2]any
}

func fuzzModel(t *testing.T, m *model.Model, data []byte) {
	item := model.Item{m.Hash.Attribute: s("a")}
	if m.Range != nil {
		item[m.Range.Attribute] = s("b")
	}
	r := &reader{rest: data}
	for range 1 + r.byte()%3 { // any attribute of the model, with any value
		f := m.Fields[int(r.byte())%len(m.Fields)]
		item[f.Attribute] = r.value(0)
	}
	first := reflect.New(m.Type).Elem()
	if err := m.Decode(item, first); err != nil {
		if _, ok := errors.AsType[*model.DecodeError](err); !ok {
			t.Fatalf("decoding failed with %T: %v", err, err)
		}
		if !first.IsZero() {
			t.Fatalf("after an error the struct is %+v", first)
		}
		return
	}
	once, err := m.Encode(first)
	if err != nil {
		return // such as an empty key, or a JSON document that is invalid UTF-8
	}
	second := reflect.New(m.Type).Elem()
	if err := m.Decode(once, second); err != nil {
		t.Fatalf("decode the encoded item: %v", err)
	}
	twice, err := m.Encode(second)
	if err != nil {
		t.Fatalf("encode the decoded item again: %v", err)
	}
	equalItems(t, twice, once)
}

// reader makes values from bytes.
type reader struct{ rest []byte }

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) text() string {
	n := min(int(r.byte()), len(r.rest))
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// texts are values that a fuzzer would rarely find.
var texts = []string{"2026-11-21T17:00:00Z", "1795280400", "1e2", "5.0", "-0", "1e-130", "9e125", "green", `{"X":1}`, "::1", "https://x"}

func (r *reader) string() string {
	if i := int(r.byte()); i < len(texts) {
		return texts[i]
	}
	return r.text()
}

func (r *reader) value(depth int) types.AttributeValue {
	if depth > 40 {
		return null()
	}
	switch r.byte() % 11 {
	case 0:
		return null()
	case 1:
		return s(r.string())
	case 2:
		return n(r.string())
	case 3:
		return b(r.text())
	case 4:
		return boolean(r.byte()%2 == 0)
	case 5:
		return &types.AttributeValueMemberSS{Value: []string{r.string(), r.string()}}
	case 6:
		return &types.AttributeValueMemberNS{Value: []string{r.string()}}
	case 7:
		return &types.AttributeValueMemberBS{Value: [][]byte{[]byte(r.text())}}
	case 8:
		elements := []types.AttributeValue{}
		for range r.byte() % 4 {
			elements = append(elements, r.value(depth+1))
		}
		return list(elements...)
	case 9:
		m := model.Item{}
		for range r.byte() % 4 {
			m[r.name()] = r.value(depth + 1)
		}
		return &types.AttributeValueMemberM{Value: m}
	}
	return nil
}

func (r *reader) name() string {
	names := []string{"next", "nodes", "any", "map", "x", "p", "zipCode", "1"}
	return names[int(r.byte())%len(names)]
}
