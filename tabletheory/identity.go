package tabletheory

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/decimal"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// identity is the item that a key means, for comparing and as a map's key. Keys
// that DynamoDB takes for one have one identity: 1 and 1.0 are one number.
func (t *target) identity(key model.Item) string {
	text := make([]byte, 0, 128) // on the stack
	text = appendPart(text, t.table)
	text = appendScalar(text, key[t.model.Hash.Attribute])
	if t.model.Range != nil {
		text = appendScalar(text, key[t.model.Range.Attribute])
	}
	return string(text)
}

// scalar is the value of a key attribute, with its type.
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
	return append(b, '-') // no key attribute, which DynamoDB will refuse
}

// canonicalNumber is the same text for equal numbers. What is no number that
// DynamoDB has is left for it to refuse.
func canonicalNumber(digits string) string {
	text, err := decimal.Canonical(digits)
	if err != nil {
		return digits
	}
	return text
}
