package tabletheory

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/apd/v3"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// identity is the item that a key means, for comparing and as a map's key. Keys
// that DynamoDB takes for one have one identity: 1 and 1.0 are one number.
func (t *target) identity(key model.Item) string {
	text := part(t.table) + scalar(key[t.model.Hash.Attribute])
	if t.model.Range != nil {
		text += scalar(key[t.model.Range.Attribute])
	}
	return text
}

// scalar is the value of a key attribute, with its type.
func scalar(av types.AttributeValue) string {
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		return "S" + part(v.Value)
	case *types.AttributeValueMemberN:
		return "N" + part(canonicalNumber(v.Value))
	case *types.AttributeValueMemberB:
		return "B" + part(string(v.Value))
	}
	return "-" // no key attribute, which DynamoDB will refuse
}

// part is a text that nothing that follows can be mistaken for a part of.
func part(text string) string { return strconv.Itoa(len(text)) + ":" + text }

// canonicalNumber is the same text for equal numbers. What is no number is left
// for DynamoDB to refuse.
func canonicalNumber(digits string) string {
	number, _, err := apd.NewFromString(digits)
	if err != nil || number.Form != apd.Finite {
		return digits
	}
	if number.IsZero() {
		return "0"
	}
	number.Reduce(number)
	return number.Text('e')
}
