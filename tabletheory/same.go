package tabletheory

import (
	"bytes"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// sameItem reports whether two items are equal to DynamoDB: numbers by value,
// sets without regard to order.
func sameItem(a, b model.Item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, av := range a {
		if !sameValue(av, b[name]) {
			return false
		}
	}
	return true
}

// sameValue is sameItem for values; nil is no value.
func sameValue(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberN, *types.AttributeValueMemberB:
		return scalar(a) == scalar(b)
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberNULL:
		_, ok := b.(*types.AttributeValueMemberNULL)
		return ok
	case *types.AttributeValueMemberL:
		b, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(a.Value, b.Value, sameValue)
	case *types.AttributeValueMemberM:
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && sameItem(a.Value, b.Value)
	case *types.AttributeValueMemberSS:
		b, ok := b.(*types.AttributeValueMemberSS)
		return ok && sameSet(a.Value, b.Value, func(s string) string { return s })
	case *types.AttributeValueMemberNS:
		b, ok := b.(*types.AttributeValueMemberNS)
		return ok && sameSet(a.Value, b.Value, canonicalNumber)
	case *types.AttributeValueMemberBS:
		b, ok := b.(*types.AttributeValueMemberBS)
		return ok && slices.EqualFunc(sortedBytes(a.Value), sortedBytes(b.Value), bytes.Equal)
	}
	return false
}

func sameSet(a, b []string, canonical func(string) string) bool {
	return slices.Equal(sortedSet(a, canonical), sortedSet(b, canonical))
}

func sortedSet(set []string, canonical func(string) string) []string {
	sorted := make([]string, len(set))
	for i, member := range set {
		sorted[i] = canonical(member)
	}
	slices.Sort(sorted)
	return sorted
}

func sortedBytes(set [][]byte) [][]byte {
	sorted := slices.Clone(set)
	slices.SortFunc(sorted, bytes.Compare)
	return sorted
}
