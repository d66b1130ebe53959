package tabletheory

import (
	"bytes"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// equalItems reports whether two items are equal to DynamoDB: numbers by value,
// sets in any order.
func equalItems(a, b model.Item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, av := range a {
		if !equalValues(av, b[name]) {
			return false
		}
	}
	return true
}

// equalValues is equalItems for values. nil is equal to nothing.
func equalValues(a, b types.AttributeValue) bool {
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
		return ok && slices.EqualFunc(a.Value, b.Value, equalValues)
	case *types.AttributeValueMemberM:
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && equalItems(a.Value, b.Value)
	case *types.AttributeValueMemberSS:
		b, ok := b.(*types.AttributeValueMemberSS)
		return ok && equalSets(a.Value, b.Value, func(s string) string { return s })
	case *types.AttributeValueMemberNS:
		b, ok := b.(*types.AttributeValueMemberNS)
		return ok && equalSets(a.Value, b.Value, canonicalNumber)
	case *types.AttributeValueMemberBS:
		b, ok := b.(*types.AttributeValueMemberBS)
		return ok && slices.EqualFunc(sortedBytes(a.Value), sortedBytes(b.Value), bytes.Equal)
	}
	return false
}

func equalSets(a, b []string, canonical func(string) string) bool {
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
