package value

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Union returns the union of two sets of the same type.
func Union(a, b types.AttributeValue) types.AttributeValue {
	switch a := a.(type) {
	case *types.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: merge(a.Value, b.(*types.AttributeValueMemberSS).Value, strings.Compare)}
	case *types.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: merge(a.Value, b.(*types.AttributeValueMemberNS).Value, CompareNumbers)}
	case *types.AttributeValueMemberBS:
		b := b.(*types.AttributeValueMemberBS)
		return binarySet(merge(binaryMembers(a.Value), binaryMembers(b.Value), strings.Compare))
	}
	return a
}

// Difference returns the members of a that are not in b, or nil if there are none.
// The sets must have the same type.
func Difference(a, b types.AttributeValue) types.AttributeValue {
	switch a := a.(type) {
	case *types.AttributeValueMemberSS:
		if left := without(a.Value, b.(*types.AttributeValueMemberSS).Value, strings.Compare); len(left) > 0 {
			return &types.AttributeValueMemberSS{Value: left}
		}
	case *types.AttributeValueMemberNS:
		if left := without(a.Value, b.(*types.AttributeValueMemberNS).Value, CompareNumbers); len(left) > 0 {
			return &types.AttributeValueMemberNS{Value: left}
		}
	case *types.AttributeValueMemberBS:
		b := b.(*types.AttributeValueMemberBS)
		if left := without(binaryMembers(a.Value), binaryMembers(b.Value), strings.Compare); len(left) > 0 {
			return binarySet(left)
		}
	}
	return nil
}

// merge returns the sorted union.
func merge(a, b []string, compare func(a, b string) int) []string {
	both := slices.Concat(a, b)
	slices.SortFunc(both, compare)
	return slices.Compact(both)
}

// without returns the members of a that are not in b.
func without(a, b []string, compare func(a, b string) int) []string {
	var left []string
	for _, s := range a {
		if _, found := slices.BinarySearchFunc(b, s, compare); !found {
			left = append(left, s)
		}
	}
	return left
}

func binaryMembers(b [][]byte) []string {
	out := make([]string, len(b))
	for i := range b {
		out[i] = string(b[i])
	}
	return out
}

func binarySet(members []string) types.AttributeValue {
	set := make([][]byte, len(members))
	for i, s := range members {
		set[i] = []byte(s)
	}
	return &types.AttributeValueMemberBS{Value: set}
}
