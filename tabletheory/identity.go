package tabletheory

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/decimal"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// identity returns a text that identifies an item, to be compared and used as a
// map key. Keys that are equal to DynamoDB have the same identity: 1 and 1.0 are
// one number.
func (t *target) identity(key model.Item) string {
	text := make([]byte, 0, 128) // on the stack
	text = appendPart(text, t.table)
	text = appendScalar(text, key[t.model.Hash.Attribute])
	if t.model.Range != nil {
		text = appendScalar(text, key[t.model.Range.Attribute])
	}
	return string(text)
}

// scalar returns the value of a key attribute with its type.
func scalar(av types.AttributeValue) string { return string(appendScalar(nil, av)) }

func appendScalar(b []byte, av types.AttributeValue) []byte {
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		return appendPart(append(b, 'S'), v.Value)
	case *types.AttributeValueMemberN:
		return appendPart(append(b, 'N'), canonicalNumber(v.Value))
	case *types.AttributeValueMemberB:
		return appendPart(append(b, 'B'), string(v.Value))
	}
	return append(b, '-') // not a key attribute: DynamoDB refuses it
}

// canonicalNumber returns the same text for equal numbers. A text that is not a
// number is unchanged; DynamoDB refuses it.
func canonicalNumber(digits string) string {
	text, err := decimal.Canonical(digits)
	if err != nil {
		return digits
	}
	return text
}
