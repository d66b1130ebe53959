package envelope

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestCanonicalNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0e9": "0", "1.0": "1", "1e2": "100", "-1.50": "-1.5", "007": "7", ".5": "0.5", "+3": "3",
		"1E-130":                                 "0." + strings.Repeat("0", 129) + "1",
		"9E+125":                                 "9" + strings.Repeat("0", 125),
		"12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
	} {
		if got, err := canonicalNumber(in); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "-", ".", "x", "1 ", "0x1", "1_0", "NaN", "Infinity", "1e", "1E126", "1E-131", "1e2147483647", "1e-99999999999999999999",
		"123456789012345678901234567890123456789", strings.Repeat("0", maxNumberText+1),
	} {
		if got, err := canonicalNumber(in); err == nil {
			t.Errorf("%q is %s; want an error", in, got)
		}
	}
}

// TestInvalidValues: values that DynamoDB would reject are not encrypted.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	deep := types.AttributeValue(&types.AttributeValueMemberS{})
	for range maxDepth {
		deep = &types.AttributeValueMemberL{Value: []types.AttributeValue{deep}}
	}
	for about, v := range map[string]types.AttributeValue{
		"nil":                              nil,
		"an unknown type":                  &types.UnknownUnionMember{},
		"nil in a list":                    &types.AttributeValueMemberL{Value: []types.AttributeValue{nil}},
		"an empty set":                     &types.AttributeValueMemberSS{},
		"a duplicate string":               &types.AttributeValueMemberSS{Value: []string{"a", "a"}},
		"a duplicate number":               &types.AttributeValueMemberNS{Value: []string{"1", "1.0"}},
		"a duplicate binary":               &types.AttributeValueMemberBS{Value: [][]byte{{1}, {1}}},
		"a false NULL":                     &types.AttributeValueMemberNULL{},
		"an invalid number":                &types.AttributeValueMemberN{Value: "one"},
		"an invalid number in a set":       &types.AttributeValueMemberNS{Value: []string{"1", "one"}},
		"a string not in UTF-8":            &types.AttributeValueMemberS{Value: "\xff"},
		"a name not in UTF-8":              &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"\xff": &types.AttributeValueMemberS{}}},
		"a set with a string not in UTF-8": &types.AttributeValueMemberSS{Value: []string{"\xff"}},
		"33 values deep":                   deep,
	} {
		if text, err := appendValue(nil, v, 1); err == nil {
			t.Errorf("%s: %s; want an error", about, text)
		}
	}
	if _, err := appendValue(nil, deep.(*types.AttributeValueMemberL).Value[0], 1); err != nil {
		t.Errorf("32 values deep: %v", err)
	}
}

// TestInvalidPlaintexts: a program that has the data key may still write invalid
// plaintexts.
func TestInvalidPlaintexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{}`, `[]`, `null`, `"x"`, `{"S":1}`, `{"S":"x"`, `{"S":"x"}}`, `{"S":"x"} {}`, `{"S":"x","N":"1"}`, `{"X":"x"}`, `{"s":"x"}`,
		"{\"S\":\"\xff\"}", `{"N":1}`, `{"N":"x"}`, `{"N":"1e999"}`, `{"B":"A"}`, `{"B":"AA"}`, `{"B":"AB=="}`, `{"NULL":false}`,
		`{"BOOL":"true"}`, `{"SS":[]}`, `{"SS":["a","a"]}`, `{"NS":["1","1.0"]}`, `{"BS":["AA==","AA=="]}`, `{"SS":[1]}`, `{"SS":null}`, `{"L":{}}`,
		`{"L":[{}]}`, `{"L":null}`, `{"M":[]}`, `{"M":{"a":{}}}`, `{"M":{"a":{"S":"1"},"a":{"S":"2"}}}`,
		strings.Repeat(`{"L":[`, maxDepth+1) + strings.Repeat(`]}`, maxDepth+1), strings.Repeat(`{"L":[`, 100_000),
	} {
		if v, err := parseValue([]byte(text)); err == nil {
			t.Errorf("%.60s is %#v; want an error", text, v)
		}
	}
	const deepest = maxDepth
	if _, err := parseValue([]byte(strings.Repeat(`{"L":[`, deepest) + strings.Repeat(`]}`, deepest))); err != nil {
		t.Errorf("%d values deep: %v", deepest, err)
	}
}
