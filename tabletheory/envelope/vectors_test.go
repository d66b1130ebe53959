package envelope

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// vector is a test vector from testdata/vectors.mjs.
type vector struct {
	About string
	Table string
	Key   []struct {
		Name, Type string
		Value      json.RawMessage
	}
	Attribute      string
	Value          json.RawMessage
	DataKey        string
	AdditionalData string
	Plaintext      string
	Stored         json.RawMessage
}

// TestVectors: envelopes of another implementation can be opened, and its additional data
// and plaintexts are identical, byte for byte.
func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 10 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.About, func(t *testing.T) { v.test(t) })
	}
}

func (v vector) test(t *testing.T) {
	value, location := parsed(t, v.Value), v.location(t)
	ad, err := location.additionalData(v.Attribute)
	if got := hex.EncodeToString(ad); err != nil || got != v.AdditionalData {
		t.Errorf("additional data %s, %v; want %s", got, err, v.AdditionalData)
	}
	plaintext, err := appendValue(nil, value, 1)
	if string(plaintext) != v.Plaintext || err != nil {
		t.Errorf("plaintext %s, %v; want %s", plaintext, err, v.Plaintext)
	}
	key, err := hex.DecodeString(v.DataKey)
	if err != nil {
		t.Fatal(err)
	}
	item := map[string]types.AttributeValue{v.Attribute: parsed(t, v.Stored)}
	if err := Open(t.Context(), onlyKey(key), location, item, v.Attribute); err != nil {
		t.Fatal(err)
	}
	again, err := appendValue(nil, item[v.Attribute], 1)
	if string(again) != v.Plaintext || err != nil {
		t.Errorf("opened %s, %v; want %s", again, err, v.Plaintext)
	}
}

func (v vector) location(t *testing.T) Location {
	t.Helper()
	location := Location{Table: v.Table}
	for _, key := range v.Key {
		value := parsed(t, []byte(`{"`+key.Type+`":`+string(key.Value)+`}`))
		location.Key = append(location.Key, KeyAttribute{Name: key.Name, Value: value})
	}
	return location
}

func parsed(t *testing.T, text []byte) types.AttributeValue {
	t.Helper()
	v, err := parseValue(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// onlyKey is a provider that always returns the same data key.
type onlyKey []byte

func (k onlyKey) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	return bytes.Clone(k), []byte("sealed"), nil
}

func (k onlyKey) OpenDataKey(context.Context, []byte) ([]byte, error) { return bytes.Clone(k), nil }

// FuzzParse: a value that parses has a canonical form, which parses to the same value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"S":"x"}`, `{"N":"1.50"}`, `{"B":"AP8="}`, `{"NULL":true}`, `{"BOOL":false}`, `{"SS":["b","a"]}`,
		`{"NS":["1","2"]}`, `{"BS":["AA=="]}`, `{"L":[{"M":{"a":{"S":"\u20ac"}}}]}`, `{"M":{"a":{"S":"1"},"a":{"S":"2"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseValue(text)
		if err != nil {
			return
		}
		canonical, err := appendValue(nil, v, 1)
		if err != nil {
			t.Fatalf("%s parses but has no canonical form: %v", text, err)
		}
		again, err := parseValue(canonical)
		if err != nil {
			t.Fatalf("%s does not parse: %v", canonical, err)
		}
		sets := []cmp.Option{
			cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
				types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{},
				types.AttributeValueMemberBS{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{}),
			cmpopts.EquateEmpty(),
			cmpopts.SortSlices(func(a, b string) bool { return a < b }),
			cmpopts.SortSlices(func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }),
		}
		if diff := cmp.Diff(v, again, sets...); diff != "" {
			t.Fatalf("%s and %s are different values: %s", canonical, text, diff)
		}
	})
}

// TestInvalidPlaintextIsMalformed: opening an authentic but invalid plaintext fails.
func TestInvalidPlaintextIsMalformed(t *testing.T) {
	t.Parallel()
	key := onlyKey(bytes.Repeat([]byte{1}, dataKeySize))
	location := Location{Table: "users", Key: []KeyAttribute{{Name: "pk", Value: &types.AttributeValueMemberS{Value: "x"}}}}
	item, err := plaintexts{"secret": []byte(`{"X":1}`)}.encrypt(t.Context(), key, location)
	if err != nil {
		t.Fatal(err)
	}
	if err := Open(t.Context(), key, location, item, "secret"); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v; want ErrMalformed", err)
	}
}
