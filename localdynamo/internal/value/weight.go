package value

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Weight returns about how many bytes of memory a decoded item takes, with its JSON.
func Weight(item map[string]types.AttributeValue) int {
	const member = 64 // of a map: key and value, and what is free
	n := 0
	for name, v := range item {
		n += member + 2*len(name) + weight(v)
	}
	return n
}

// weight counts text twice: in the copy of the item that decoded values share, and in the
// JSON. A binary is copied once more, and a third longer in the JSON.
func weight(v types.AttributeValue) int {
	const (
		header = 28 // of a value, with its type in the JSON
		text   = 20 // of a member of a set or an element of a list, with its quotes in the JSON
	)
	n := header
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		n += 2 * len(v.Value)
	case *types.AttributeValueMemberN:
		n += 2 * len(v.Value)
	case *types.AttributeValueMemberB:
		n += 4 * len(v.Value)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			n += text + weight(e)
		}
	case *types.AttributeValueMemberM:
		n += Weight(v.Value)
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += text + 2*len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += text + 2*len(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += 2*text + 4*len(b)
		}
	}
	return n
}
