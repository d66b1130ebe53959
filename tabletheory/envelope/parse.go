package envelope

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-faster/jx"
)

// parseValue parses the JSON of a value. It is authenticated, but may have been written
// by another implementation, so it is bounded and validated like any input.
func parseValue(text []byte) (types.AttributeValue, error) {
	if !utf8.Valid(text) {
		return nil, errText
	}
	p := parser{jx.DecodeBytes(text)}
	v, err := p.value(1)
	if err != nil {
		return nil, err
	}
	if err := p.json.Skip(); err != io.EOF {
		return nil, errors.New("trailing data after the value")
	}
	return v, nil
}

type parser struct{ json *jx.Decoder }

// value parses an object with one member, whose name is the type.
func (p parser) value(depth int) (types.AttributeValue, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	members, err := p.json.ObjIter()
	if err != nil {
		return nil, err
	}
	if !members.Next() {
		return nil, cmp.Or(members.Err(), errors.New("value without a type"))
	}
	v, err := p.member(string(members.Key()), depth)
	if err != nil {
		return nil, err
	}
	if members.Next() {
		return nil, errors.New("value with two types")
	}
	return v, members.Err()
}

func (p parser) member(kind string, depth int) (types.AttributeValue, error) {
	switch kind {
	case "S":
		s, err := p.json.Str()
		return &types.AttributeValueMemberS{Value: s}, err
	case "N":
		n, err := p.number()
		return &types.AttributeValueMemberN{Value: n}, err
	case "B":
		b, err := p.binary()
		return &types.AttributeValueMemberB{Value: b}, err
	case "BOOL":
		b, err := p.json.Bool()
		return &types.AttributeValueMemberBOOL{Value: b}, err
	case "NULL":
		b, err := p.json.Bool()
		if err == nil && !b {
			err = errors.New("NULL is false")
		}
		return &types.AttributeValueMemberNULL{Value: true}, err
	case "SS":
		set, err := readSet(p.json, p.json.Str, func(s string) string { return s })
		return &types.AttributeValueMemberSS{Value: set}, err
	case "NS":
		set, err := readSet(p.json, p.number, func(n string) string { return n })
		return &types.AttributeValueMemberNS{Value: set}, err
	case "BS":
		set, err := readSet(p.json, p.binary, func(b []byte) string { return string(b) })
		return &types.AttributeValueMemberBS{Value: set}, err
	case "L":
		list, err := p.list(depth)
		return &types.AttributeValueMemberL{Value: list}, err
	case "M":
		members, err := p.members(depth)
		return &types.AttributeValueMemberM{Value: members}, err
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

func (p parser) number() (string, error) {
	s, err := p.json.Str()
	if err != nil {
		return "", err
	}
	return canonicalNumber(s)
}

func (p parser) binary() ([]byte, error) {
	s, err := p.json.Str()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

func readSet[T any](json *jx.Decoder, element func() (T, error), text func(T) string) ([]T, error) {
	var set []T
	var texts []string
	err := json.Arr(func(*jx.Decoder) error {
		member, err := element()
		set, texts = append(set, member), append(texts, text(member))
		return err
	})
	if err != nil {
		return nil, err
	}
	return set, checkSet(texts)
}

func (p parser) list(depth int) ([]types.AttributeValue, error) {
	list := []types.AttributeValue{}
	err := p.json.Arr(func(*jx.Decoder) error {
		v, err := p.value(depth + 1)
		list = append(list, v)
		return err
	})
	return list, err
}

func (p parser) members(depth int) (map[string]types.AttributeValue, error) {
	members := map[string]types.AttributeValue{}
	err := p.json.Obj(func(_ *jx.Decoder, name string) error {
		if _, twice := members[name]; twice {
			return fmt.Errorf("duplicate map member %q", name)
		}
		v, err := p.value(depth + 1)
		members[name] = v
		return err
	})
	return members, err
}
