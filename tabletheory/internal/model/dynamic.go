package model

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// decodeAny decodes into an empty interface as attributevalue does: numbers
// become float64, lists []any, maps map[string]any, sets slices of string,
// float64 or []byte. Errors name the type of c.
func decodeAny(c *codec, av types.AttributeValue, depth int) (any, error) {
	if depth > maxNesting {
		return nil, c.invalid(av, errTooDeep)
	}
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return av.Value, nil
	case *types.AttributeValueMemberN:
		f, err := parseFloat(av.Value, 64)
		if err != nil {
			return nil, c.invalid(av, err)
		}
		return f, nil
	case *types.AttributeValueMemberB:
		return cloneBytes(av.Value), nil
	case *types.AttributeValueMemberBOOL:
		return av.Value, nil
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberSS:
		return append([]string{}, av.Value...), nil
	case *types.AttributeValueMemberNS:
		return floats(c, av)
	case *types.AttributeValueMemberBS:
		return cloneSlices(av.Value), nil
	case *types.AttributeValueMemberL:
		return anyList(c, av.Value, depth+1)
	case *types.AttributeValueMemberM:
		return anyMap(c, av.Value, depth+1)
	}
	return nil, c.mismatch(av)
}

func floats(c *codec, av *types.AttributeValueMemberNS) (any, error) {
	set := make([]float64, len(av.Value))
	for i, text := range av.Value {
		f, err := parseFloat(text, 64)
		if err != nil {
			return nil, addStep(index(i), "", c.invalid(&types.AttributeValueMemberN{Value: text}, err))
		}
		set[i] = f
	}
	return set, nil
}

func anyList(c *codec, list []types.AttributeValue, depth int) (any, error) {
	decoded := make([]any, len(list))
	for i, elem := range list {
		x, err := decodeAny(c, elem, depth)
		if err != nil {
			return nil, addStep(index(i), "", err)
		}
		decoded[i] = x
	}
	return decoded, nil
}

func anyMap(c *codec, m Item, depth int) (any, error) {
	decoded := make(map[string]any, len(m))
	for name, elem := range m {
		x, err := decodeAny(c, elem, depth)
		if err != nil {
			return nil, addStep(name, "", err)
		}
		decoded[name] = x
	}
	return decoded, nil
}
