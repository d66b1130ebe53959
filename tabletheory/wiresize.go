package tabletheory

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// perValue bounds the JSON around a value: {"BOOL":false}, and a little more.
const perValue = 16

// itemWireSize returns an upper bound of the size of an item in DynamoDB's JSON.
func itemWireSize(item model.Item) int {
	size := perValue
	for name, av := range item {
		size += textWireSize(name) + valueWireSize(av)
	}
	return size
}

func valueWireSize(av types.AttributeValue) int {
	size := perValue
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		size += textWireSize(v.Value)
	case *types.AttributeValueMemberN:
		size += textWireSize(v.Value)
	case *types.AttributeValueMemberB:
		size += base64.StdEncoding.EncodedLen(len(v.Value))
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			size += textWireSize(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			size += textWireSize(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			size += base64.StdEncoding.EncodedLen(len(b)) + len(`"",`)
		}
	case *types.AttributeValueMemberL:
		for _, element := range v.Value {
			size += valueWireSize(element)
		}
	case *types.AttributeValueMemberM:
		size += itemWireSize(v.Value)
	}
	return size
}

// textWireSize returns an upper bound of the size of a JSON string with the
// comma or colon after it: six bytes for escaped characters.
func textWireSize(s string) int {
	size := len(`"",`)
	for _, r := range s {
		switch {
		case r < ' ' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
			size += len(`\u0000`)
		default:
			size += utf8.RuneLen(r)
		}
	}
	return size
}
