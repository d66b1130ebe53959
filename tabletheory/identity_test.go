package tabletheory

import (
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

func TestCanonicalNumberOfEqualNumbers(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"0", "-0", "0.0", "0e5", "-0.00"},
		{"1", "1.0", "01", "1e0", "10e-1", "+1"},
		{"100", "1e2", "1E+2", "0.1e3"},
		{"-1.5", "-15e-1", "-1.50"},
		{"12345678901234567890123456789012345678", "1.2345678901234567890123456789012345678e37"},
		{"1e125", "10e124"},
	} {
		for _, digits := range same[1:] {
			if got, want := canonicalNumber(digits), canonicalNumber(same[0]); got != want {
				t.Errorf("%s is %s, but %s is %s", digits, got, same[0], want)
			}
		}
	}
	for _, digits := range []string{"", "x", "NaN", "Infinity", "1e", "--1"} {
		if got := canonicalNumber(digits); got != digits {
			t.Errorf("canonicalNumber(%q) = %q, want it unchanged", digits, got)
		}
	}
}

func TestCanonicalNumberDistinguishesNumbers(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?[0-9]{1,6}(\.[0-9]{1,4})?([eE][+-]?[0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY {
			t.Fatalf("%s or %s is not a number", a, b)
		}
		if equal := canonicalNumber(a) == canonicalNumber(b); equal != (x.Cmp(y) == 0) {
			t.Fatalf("%s and %s are equal: %v", a, b, equal)
		}
	})
}

// Keys differ even if only the boundary between their attributes or their types
// differ.
func TestIdentityDistinguishesKeys(t *testing.T) {
	t.Parallel()
	m := &model.Model{Hash: &model.Field{Attribute: "a"}, Range: &model.Field{Attribute: "b"}}
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	seen := map[string]int{}
	for i, key := range []struct {
		table string
		a, b  types.AttributeValue
	}{
		{"t", str("x"), str("yz")},
		{"t", str("xy"), str("z")},
		{"t", str("x1:y"), str("z")},
		{"t", str("x"), str("1:yz")},
		{"u", str("x"), str("yz")},
		{"t", str("x"), &types.AttributeValueMemberB{Value: []byte("yz")}},
		{"t", str("x"), str("1")},
		{"t", str("x"), &types.AttributeValueMemberN{Value: "1"}},
		{"t", str("x"), nil},
	} {
		target := &target{model: m, table: key.table}
		id := target.identity(model.Item{"a": key.a, "b": key.b})
		if other, taken := seen[id]; taken {
			t.Errorf("keys %d and %d are both %q", other, i, id)
		}
		seen[id] = i
	}
}
