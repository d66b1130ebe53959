package envelope

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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
