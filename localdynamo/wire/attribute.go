package wire

import (
	"encoding/base64"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-faster/jx"
)

// Attribute values are the bulk of every message, so their codecs are hand-written.

// maxNesting is the maximum depth of decoded lists and maps. It is above DynamoDB's
// limit, which the engine checks.
const maxNesting = 64

const (
	emptyValue    = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
	ambiguous     = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	nestedTooDeep = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"

	attributeClass  = "class com.amazonaws.dynamodb.v20120810.AttributeValue"
	attributesClass = "java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>"
)

// attributes decodes an item, a key or another map of attribute values.
func (d *decoder) attributes(depth int) (map[string]types.AttributeValue, error) {
	if err := d.expect(jx.Object, attributesClass, "Unexpected field type"); err != nil {
		return nil, err
	}
	members, err := d.json.ObjIter()
	if err != nil {
		return nil, notJSON(err)
	}
	read := make(map[string]types.AttributeValue)
	for members.Next() {
		name := ""
		if raw := members.Key(); len(raw) > 0 {
			name = d.share(raw)
		}
		v, err := d.attribute(depth)
		if err != nil {
			return nil, err
		}
		read[name] = v
	}
	return read, notJSON(members.Err())
}

// attribute decodes an attribute value. For an invalid value it returns nil and sets
// d.deferred.
func (d *decoder) attribute(depth int) (types.AttributeValue, error) {
	if absent, err := d.null(); absent || err != nil {
		d.deferError(validation(emptyValue))
		return nil, err
	}
	if err := d.expect(jx.Object, attributeClass, "Unexpected value type in payload"); err != nil {
		return nil, err
	}
	if depth > maxNesting {
		d.deferError(validation(nestedTooDeep))
		return nil, d.skip()
	}
	members, err := d.json.ObjIter()
	if err != nil {
		return nil, notJSON(err)
	}
	var v types.AttributeValue
	kinds := ""
	for members.Next() {
		kind := attributeKind(members.Key())
		absent, err := d.null()
		if err == nil && kind == "" && !absent {
			err = d.skip()
		}
		if err != nil {
			return nil, err
		}
		if kind == "" || absent {
			continue
		}
		if v, err = d.member(kind, depth); err != nil {
			return nil, err
		}
		if kinds != "" && kinds != kind {
			d.deferError(validation(ambiguous))
		}
		kinds = kind
	}
	if kinds == "" {
		d.deferError(validation(emptyValue))
	}
	return v, notJSON(members.Err())
}

// attributeKind returns the name of a datatype as a constant, or "" if it is unknown.
func attributeKind(key []byte) string {
	switch string(key) {
	case "S":
		return "S"
	case "N":
		return "N"
	case "B":
		return "B"
	case "BOOL":
		return "BOOL"
	case "NULL":
		return "NULL"
	case "M":
		return "M"
	case "L":
		return "L"
	case "SS":
		return "SS"
	case "NS":
		return "NS"
	case "BS":
		return "BS"
	}
	return ""
}

// member decodes the value of a datatype.
func (d *decoder) member(kind string, depth int) (types.AttributeValue, error) {
	switch kind {
	case "S":
		s, err := d.sharedStr()
		return &types.AttributeValueMemberS{Value: s}, err
	case "N":
		s, err := d.sharedStr()
		return &types.AttributeValueMemberN{Value: s}, err
	case "B":
		b, err := d.blob()
		return &types.AttributeValueMemberB{Value: b}, err
	case "BOOL":
		b, err := d.boolean()
		return &types.AttributeValueMemberBOOL{Value: b}, err
	case "NULL":
		b, err := d.boolean()
		return &types.AttributeValueMemberNULL{Value: b}, err
	case "M":
		m, err := d.attributes(depth + 1)
		return &types.AttributeValueMemberM{Value: m}, err
	case "L":
		l, err := d.attributeList(depth + 1)
		return &types.AttributeValueMemberL{Value: l}, err
	case "SS":
		l, err := d.strings(d.sharedStr)
		return &types.AttributeValueMemberSS{Value: l}, err
	case "NS":
		l, err := d.strings(d.sharedStr)
		return &types.AttributeValueMemberNS{Value: l}, err
	default:
		l, err := d.blobs()
		return &types.AttributeValueMemberBS{Value: l}, err
	}
}

func (d *decoder) attributeList(depth int) ([]types.AttributeValue, error) {
	read := []types.AttributeValue{}
	err := d.expectList()
	if err != nil {
		return nil, err
	}
	elements, err := d.json.ArrIter()
	if err != nil {
		return nil, notJSON(err)
	}
	for elements.Next() {
		v, err := d.attribute(depth)
		if err != nil {
			return nil, err
		}
		read = append(read, v)
	}
	return read, notJSON(elements.Err())
}

func (d *decoder) expectList() error {
	return d.expect(jx.Array, "", "Unexpected field type")
}

func (d *decoder) strings(str func() (string, error)) ([]string, error) {
	if err := d.expectList(); err != nil {
		return nil, err
	}
	read := []string{}
	err := d.list(func() error {
		s := ""
		absent, err := d.nullElement()
		if err == nil && !absent {
			s, err = str()
		}
		read = append(read, s)
		return err
	})
	return read, err
}

func (d *decoder) blobs() ([][]byte, error) {
	if err := d.expectList(); err != nil {
		return nil, err
	}
	read := [][]byte{}
	err := d.list(func() error {
		var b []byte
		absent, err := d.nullElement()
		if err == nil && !absent {
			b, err = d.blob()
		}
		read = append(read, b)
		return err
	})
	return read, err
}

func appendAttributes(dst []byte, fields map[string]types.AttributeValue) []byte {
	dst = append(dst, '{')
	first := true
	for name, v := range fields {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendString(dst, name)
		dst = append(dst, ':')
		dst = appendAttribute(dst, v)
	}
	return append(dst, '}')
}

func appendAttribute(dst []byte, v types.AttributeValue) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		dst = appendString(append(dst, `{"S":`...), v.Value)
	case *types.AttributeValueMemberN:
		dst = appendString(append(dst, `{"N":`...), v.Value)
	case *types.AttributeValueMemberB:
		dst = appendBlob(append(dst, `{"B":`...), v.Value)
	case *types.AttributeValueMemberBOOL:
		dst = strconv.AppendBool(append(dst, `{"BOOL":`...), v.Value)
	case *types.AttributeValueMemberNULL:
		dst = strconv.AppendBool(append(dst, `{"NULL":`...), v.Value)
	case *types.AttributeValueMemberM:
		dst = appendAttributes(append(dst, `{"M":`...), v.Value)
	case *types.AttributeValueMemberL:
		dst = appendList(append(dst, `{"L":`...), v.Value, appendAttribute)
	case *types.AttributeValueMemberSS:
		dst = appendList(append(dst, `{"SS":`...), v.Value, appendString)
	case *types.AttributeValueMemberNS:
		dst = appendList(append(dst, `{"NS":`...), v.Value, appendString)
	case *types.AttributeValueMemberBS:
		dst = appendList(append(dst, `{"BS":`...), v.Value, appendBlob)
	default:
		dst = append(dst, '{') // the engine stores no other types
	}
	return append(dst, '}')
}

func appendList[T any](dst []byte, list []T, element func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, v)
	}
	return append(dst, ']')
}

func appendBlob(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}
