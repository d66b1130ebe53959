package tabletheory

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// clauses are the clauses of an update expression.
type clauses struct {
	set, remove, add, delete []string
}

// String returns the update expression.
func (c clauses) String() string {
	all := [...]struct {
		keyword string
		actions []string
	}{{"SET ", c.set}, {"REMOVE ", c.remove}, {"ADD ", c.add}, {"DELETE ", c.delete}}
	size := 0
	for _, clause := range all {
		size += len(" ") + len(clause.keyword)
		for _, action := range clause.actions {
			size += len(action) + len(", ")
		}
	}
	var text strings.Builder
	text.Grow(size)
	for _, clause := range all {
		for i, action := range clause.actions {
			switch {
			case i > 0:
				text.WriteString(", ")
			case text.Len() > 0:
				text.WriteString(" " + clause.keyword)
			default:
				text.WriteString(clause.keyword)
			}
			text.WriteString(action)
		}
	}
	return text.String()
}

// members encodes members to add to or remove from a set, given as a slice or as
// the set that the field takes.
func members(path *model.Path, value any) (types.AttributeValue, error) {
	av, err := path.Encode(value)
	if err != nil {
		return nil, err
	}
	switch v := av.(type) {
	case *types.AttributeValueMemberSS, *types.AttributeValueMemberNS, *types.AttributeValueMemberBS:
		return av, nil
	case *types.AttributeValueMemberL:
		return setOf(v.Value)
	}
	return nil, errors.New("pass the members as a slice or a set")
}

// setOf makes a set of scalars of one type.
func setOf(elements []types.AttributeValue) (types.AttributeValue, error) {
	var strs, numbers []string
	var blobs [][]byte
	for _, element := range elements {
		switch v := element.(type) {
		case *types.AttributeValueMemberS:
			strs = append(strs, v.Value)
		case *types.AttributeValueMemberN:
			numbers = append(numbers, v.Value)
		case *types.AttributeValueMemberB:
			blobs = append(blobs, v.Value)
		}
	}
	switch n := len(elements); {
	case n == 0:
		return nil, errors.New("no members: DynamoDB has no empty sets")
	case n == len(strs):
		return &types.AttributeValueMemberSS{Value: strs}, nil
	case n == len(numbers):
		return &types.AttributeValueMemberNS{Value: numbers}, nil
	case n == len(blobs):
		return &types.AttributeValueMemberBS{Value: blobs}, nil
	}
	return nil, errors.New("the members of a set must be all strings, all numbers or all binary")
}

// encodeElements encodes a slice of elements for the list at a path.
func encodeElements(path *model.Path, elements any) ([]types.AttributeValue, error) {
	v := reflect.ValueOf(elements)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, fmt.Errorf("pass the elements as a slice, not %s", describe(elements))
	}
	list := make([]types.AttributeValue, v.Len())
	for i := range list {
		av, err := path.EncodeElement(v.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		list[i] = av
	}
	return list, nil
}
