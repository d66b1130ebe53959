// Package value implements DynamoDB's data model: validation, comparison and
// size of attribute values, number arithmetic, and the encoding of items and
// keys on disk.
//
// Values are the SDK's types.AttributeValue. A value returned by Normalize, or
// decoded from disk, is canonical: numbers are plain decimals that are equal
// exactly when their texts are; sets are sorted (numbers by value, strings and
// binaries bytewise), not empty and free of duplicates; and it shares no memory
// with the caller.
package value

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxDepth is the maximum number of maps and lists that enclose a value,
// including the item itself.
const MaxDepth = 32

// MaxName is the maximum length of an attribute name or map key, in bytes.
const MaxName = 1<<16 - 1

// Errors for malformed values. The messages are AWS's.
var (
	ErrNoType    = errors.New("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	ErrTooDeep   = errors.New("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")
	ErrNullFalse = errors.New("One or more parameter values were invalid: Null attribute value types must have the value of true")
	ErrNoName    = errors.New("Empty attribute name")
	ErrLongName  = errors.New("Attribute name is too large, must be less than 65536 bytes")
	errEmptySS   = errors.New("One or more parameter values were invalid: An string set  may not be empty")
	errEmptyNS   = errors.New("One or more parameter values were invalid: An number set  may not be empty")
	errEmptyBS   = errors.New("One or more parameter values were invalid: Binary sets should not be empty")
)

// Type returns the wire name of v's type ("S", "NS", "BOOL"), or "" if v is not
// a DynamoDB type.
func Type(v types.AttributeValue) string {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return "S"
	case *types.AttributeValueMemberN:
		return "N"
	case *types.AttributeValueMemberB:
		return "B"
	case *types.AttributeValueMemberBOOL:
		return "BOOL"
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberL:
		return "L"
	case *types.AttributeValueMemberM:
		return "M"
	case *types.AttributeValueMemberSS:
		return "SS"
	case *types.AttributeValueMemberNS:
		return "NS"
	case *types.AttributeValueMemberBS:
		return "BS"
	}
	return ""
}

// Normalize validates v and returns a canonical deep copy.
func Normalize(v types.AttributeValue) (types.AttributeValue, error) {
	return normalize(v, 1)
}

// NormalizeItem validates and copies an item or key. If several errors apply,
// an invalid attribute name is reported first and an invalid map key last.
func NormalizeItem(item map[string]types.AttributeValue) (map[string]types.AttributeValue, error) {
	for name := range item {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	out, err := normalizeMap(item, 1)
	if errors.Is(err, ErrNoName) {
		if deep := CheckDepth(item); deep != nil {
			err = deep
		}
	}
	return out, err
}

// normalize handles a value enclosed by depth maps and lists.
func normalize(v types.AttributeValue, depth int) (types.AttributeValue, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if v != nil {
			return &types.AttributeValueMemberS{Value: v.Value}, nil
		}
	case *types.AttributeValueMemberN:
		if v != nil {
			n, err := Canonical(v.Value)
			return &types.AttributeValueMemberN{Value: n}, err
		}
	case *types.AttributeValueMemberB:
		if v != nil {
			return &types.AttributeValueMemberB{Value: copyBytes(v.Value)}, nil
		}
	case *types.AttributeValueMemberBOOL:
		if v != nil {
			return &types.AttributeValueMemberBOOL{Value: v.Value}, nil
		}
	case *types.AttributeValueMemberNULL:
		if v != nil {
			if !v.Value {
				return nil, ErrNullFalse
			}
			return &types.AttributeValueMemberNULL{Value: true}, nil
		}
	case *types.AttributeValueMemberL:
		if v != nil {
			return normalizeList(v.Value, depth+1)
		}
	case *types.AttributeValueMemberM:
		if v != nil {
			m, err := normalizeMap(v.Value, depth+1)
			return &types.AttributeValueMemberM{Value: m}, err
		}
	default:
		return normalizeSet(v)
	}
	return nil, ErrNoType
}

func normalizeList(in []types.AttributeValue, depth int) (types.AttributeValue, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	out := make([]types.AttributeValue, len(in))
	for i, e := range in {
		c, err := normalize(e, depth)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return &types.AttributeValueMemberL{Value: out}, nil
}

func normalizeMap(in map[string]types.AttributeValue, depth int) (map[string]types.AttributeValue, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	out := make(map[string]types.AttributeValue, len(in))
	for name, e := range in {
		if err := CheckName(name); err != nil {
			return nil, err
		}
		c, err := normalize(e, depth)
		if err != nil {
			return nil, err
		}
		out[name] = c
	}
	return out, nil
}

// CheckName validates an attribute name or map key.
func CheckName(name string) error {
	switch {
	case name == "":
		return ErrNoName
	case len(name) > MaxName:
		return ErrLongName
	}
	return nil
}

func normalizeSet(v types.AttributeValue) (types.AttributeValue, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		if v == nil {
			return nil, ErrNoType
		}
		if len(v.Value) == 0 {
			return nil, errEmptySS
		}
		set := slices.Sorted(slices.Values(v.Value))
		if hasDuplicate(set) {
			return nil, errDuplicateSS(v.Value)
		}
		return &types.AttributeValueMemberSS{Value: set}, nil
	case *types.AttributeValueMemberNS:
		if v == nil {
			return nil, ErrNoType
		}
		if len(v.Value) == 0 {
			return nil, errEmptyNS
		}
		return normalizeNumberSet(v.Value)
	case *types.AttributeValueMemberBS:
		if v == nil {
			return nil, ErrNoType
		}
		if len(v.Value) == 0 {
			return nil, errEmptyBS
		}
		return normalizeBinarySet(v.Value)
	}
	return nil, ErrNoType
}

func normalizeNumberSet(in []string) (types.AttributeValue, error) {
	out := make([]string, len(in))
	for i, n := range in {
		c, err := Canonical(n)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	slices.SortFunc(out, CompareNumbers)
	// Duplicates are numeric: 1 and 1.0 are the same member.
	if hasDuplicate(out) {
		return nil, errDuplicateNS()
	}
	return &types.AttributeValueMemberNS{Value: out}, nil
}

func normalizeBinarySet(in [][]byte) (types.AttributeValue, error) {
	set := sortedBinaries(in)
	for i := 1; i < len(set); i++ {
		if bytes.Equal(set[i-1], set[i]) {
			return nil, errDuplicateBS(in)
		}
	}
	return &types.AttributeValueMemberBS{Value: set}, nil
}

// sortedBinaries returns a sorted deep copy.
func sortedBinaries(in [][]byte) [][]byte {
	out := make([][]byte, len(in))
	for i, b := range in {
		out[i] = copyBytes(b)
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

// hasDuplicate requires a sorted list.
func hasDuplicate(sorted []string) bool {
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1] == sorted[i] {
			return true
		}
	}
	return false
}

// copyBytes never returns nil, because an empty binary is a value and nil means
// absent.
func copyBytes(b []byte) []byte {
	return append(make([]byte, 0, len(b)), b...)
}

// Clone returns a deep copy of a canonical value.
func Clone(v types.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberL:
		out := make([]types.AttributeValue, len(v.Value))
		for i, e := range v.Value {
			out[i] = Clone(e)
		}
		return &types.AttributeValueMemberL{Value: out}
	case *types.AttributeValueMemberM:
		out := make(map[string]types.AttributeValue, len(v.Value))
		for name, e := range v.Value {
			out[name] = Clone(e)
		}
		return &types.AttributeValueMemberM{Value: out}
	case *types.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: slices.Clone(v.Value)}
	case *types.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: slices.Clone(v.Value)}
	case *types.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: sortedBinaries(v.Value)}
	case *types.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: copyBytes(v.Value)}
	}
	return v // the other scalars are never modified in place
}

// Equal reports whether two canonical values are equal. Values of different
// types are not.
func Equal(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberB:
		b, ok := b.(*types.AttributeValueMemberB)
		return ok && bytes.Equal(a.Value, b.Value)
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberNULL:
		_, ok := b.(*types.AttributeValueMemberNULL)
		return ok
	case *types.AttributeValueMemberL:
		b, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(a.Value, b.Value, Equal)
	case *types.AttributeValueMemberM:
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && EqualItems(a.Value, b.Value)
	case *types.AttributeValueMemberSS:
		b, ok := b.(*types.AttributeValueMemberSS)
		return ok && slices.Equal(a.Value, b.Value)
	case *types.AttributeValueMemberNS:
		b, ok := b.(*types.AttributeValueMemberNS)
		return ok && slices.Equal(a.Value, b.Value)
	case *types.AttributeValueMemberBS:
		b, ok := b.(*types.AttributeValueMemberBS)
		return ok && slices.EqualFunc(a.Value, b.Value, bytes.Equal)
	}
	return false
}

// EqualItems reports whether two canonical items are equal.
func EqualItems(a, b map[string]types.AttributeValue) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// Compare orders two canonical scalars of the same type, S, N or B. ok is false
// for any other pair: DynamoDB does not order them.
func Compare(a, b types.AttributeValue) (order int, ok bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		if b, ok := b.(*types.AttributeValueMemberS); ok {
			return strings.Compare(a.Value, b.Value), true
		}
	case *types.AttributeValueMemberN:
		if b, ok := b.(*types.AttributeValueMemberN); ok {
			return CompareNumbers(a.Value, b.Value), true
		}
	case *types.AttributeValueMemberB:
		if b, ok := b.(*types.AttributeValueMemberB); ok {
			return bytes.Compare(a.Value, b.Value), true
		}
	}
	return 0, false
}

// CheckDepth returns ErrTooDeep if item is nested deeper than MaxDepth, as it can
// be after an update.
func CheckDepth(item map[string]types.AttributeValue) error {
	for _, v := range item {
		if !withinDepth(v, 1) {
			return ErrTooDeep
		}
	}
	return nil
}

// withinDepth reports whether v, enclosed by depth maps and lists, stays within
// MaxDepth.
func withinDepth(v types.AttributeValue, depth int) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberL:
		if v == nil || depth >= MaxDepth {
			return v == nil
		}
		for _, e := range v.Value {
			if !withinDepth(e, depth+1) {
				return false
			}
		}
	case *types.AttributeValueMemberM:
		if v == nil || depth >= MaxDepth {
			return v == nil
		}
		for _, e := range v.Value {
			if !withinDepth(e, depth+1) {
				return false
			}
		}
	}
	return true
}
