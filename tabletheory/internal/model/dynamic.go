package model

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/decimal"
)

// decodeAny decodes into an empty interface: lists become []any, maps map[string]any, sets
// slices of string, Number or []byte. Numbers become Number, since no other type holds all
// of them without a loss: a float64 rounds from 2^53 + 1 on. Errors name the type of c.
func decodeAny(c *codec, av types.AttributeValue, depth int) (any, error) {
	if depth > maxNesting {
		return nil, c.invalid(av, errTooDeep)
	}
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return av.Value, nil
	case *types.AttributeValueMemberN:
		if _, err := decimal.Canonical(av.Value); err != nil {
			return nil, c.invalid(av, err)
		}
		return Number(av.Value), nil
	case *types.AttributeValueMemberB:
		return cloneBytes(av.Value), nil
	case *types.AttributeValueMemberBOOL:
		return av.Value, nil
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberSS:
		return append([]string{}, av.Value...), nil
	case *types.AttributeValueMemberNS:
		return numbers(c, av)
	case *types.AttributeValueMemberBS:
		return cloneSlices(av.Value), nil
	case *types.AttributeValueMemberL:
		return anyList(c, av.Value, depth+1)
	case *types.AttributeValueMemberM:
		return anyMap(c, av.Value, depth+1)
	}
	return nil, c.mismatch(av)
}

func numbers(c *codec, av *types.AttributeValueMemberNS) (any, error) {
	set := make([]Number, len(av.Value))
	for i, text := range av.Value {
		if _, err := decimal.Canonical(text); err != nil {
			return nil, addStep(index(i), "", c.invalid(&types.AttributeValueMemberN{Value: text}, err))
		}
		set[i] = Number(text)
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
