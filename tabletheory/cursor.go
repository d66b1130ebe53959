package tabletheory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/cockroachdb/apd/v3"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// A cursor is where a page ended, as text that is safe in a URL:
//
//	base64url( version 1 byte, binding 16 bytes, { length uvarint, value }… )
//
// The values are those of the key attributes of the last item, but for the
// partition key of what is queried: that is a part of the binding, a hash of
// all that a cursor belongs to. So a cursor says nothing of the partition that
// it is of, is of no use in another one, and cannot be made to read anything
// that the query itself does not read. It is not secret, nor signed: who makes
// up another position in the partition begins there.
const (
	cursorVersion = 1
	bindingSize   = 16
	maxCursor     = 8 << 10 // characters; DynamoDB's longest keys need less
)

// maxKeyValue is how many bytes a value in a cursor has at most: DynamoDB's
// longest partition key. maxNumber is that for numbers: DynamoDB writes out 126
// digits before the point, or 130 behind it.
const (
	maxKeyValue = 2048
	maxNumber   = 256
)

// cursorOf is the cursor of a position; none for the end.
func (r *reading) cursorOf(next model.Item) (string, error) {
	if len(next) == 0 {
		return "", nil
	}
	hash, _ := r.keyFields()
	text := append([]byte{cursorVersion}, r.binding(r.partition[hash.Attribute])...)
	for _, field := range r.cursorFields() {
		value, ok := scalarText(next[field.Attribute], field.Key)
		if !ok {
			return "", r.failure(r.op, r.partition, fmt.Errorf("DynamoDB has answered with a position whose key %s is no %s", field.Attribute, field.Key))
		}
		text = appendPart(text, value)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// startOf is the position that the query's cursor means in a partition; nil if
// there is no cursor.
func (q *Query) startOf(partition types.AttributeValue) (model.Item, error) {
	if q.cursor == "" {
		return nil, nil
	}
	if len(q.cursor) > maxCursor {
		return nil, invalid("Cursor: it has %d characters, and no cursor has more than %d", len(q.cursor), maxCursor)
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(q.cursor)
	if err != nil || len(text) < 1+bindingSize {
		return nil, invalid("Cursor: it is none that Page.NextCursor has returned")
	}
	if text[0] != cursorVersion {
		return nil, invalid("Cursor: it is of version %d, and this program knows version %d: begin at the first page", text[0], cursorVersion)
	}
	if !slices.Equal(text[1:1+bindingSize], q.binding(partition)) {
		return nil, invalid("Cursor: it belongs to another query: the model, table, index, partition key and direction must be those of the page that it came with")
	}
	return q.position(partition, text[1+bindingSize:])
}

// position reads the values of a cursor.
func (q *Query) position(partition types.AttributeValue, values []byte) (model.Item, error) {
	hash, _ := q.keyFields()
	position := model.Item{hash.Attribute: partition}
	for _, field := range q.cursorFields() {
		length, n := binary.Uvarint(values)
		if n <= 0 || length > maxKeyValue || length > uint64(len(values)-n) {
			return nil, invalid("Cursor: it is damaged")
		}
		value, ok := scalarOf(values[n:n+int(length)], field.Key)
		if !ok {
			return nil, invalid("Cursor: it is damaged: key %s is no %s", field.Name, field.Key)
		}
		position[field.Attribute] = value
		values = values[n+int(length):]
	}
	if len(values) > 0 {
		return nil, invalid("Cursor: it is damaged: something follows its end")
	}
	return position, nil
}

// cursorFields are the key attributes whose values a cursor has.
func (q *Query) cursorFields() []*model.Field {
	hash, sort := q.keyFields()
	var fields []*model.Field
	for _, field := range []*model.Field{sort, q.model.Hash, q.model.Range} {
		if field != nil && field != hash && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// binding is a hash of what a cursor belongs to.
func (q *Query) binding(partition types.AttributeValue) []byte {
	index := ""
	if q.index != nil {
		index = q.index.Name
	}
	hash, _ := q.keyFields()
	value, _ := scalarText(partition, hash.Key) // a number is as the query has it
	text := []byte{cursorVersion}
	for _, bound := range []string{
		q.model.Type.String(), q.table, index, strconv.FormatBool(q.descending), hash.Attribute, string(hash.Key), canonical(value, hash.Key),
	} {
		text = appendPart(text, bound)
	}
	for _, field := range q.cursorFields() {
		text = appendPart(appendPart(text, field.Attribute), string(field.Key))
	}
	sum := sha256.Sum256(text)
	return sum[:bindingSize]
}

func canonical(value string, kind types.ScalarAttributeType) string {
	if kind == types.ScalarAttributeTypeN {
		return canonicalNumber(value)
	}
	return value
}

// appendPart appends a text with its length before it, so that no two lists of
// texts look alike.
func appendPart(b []byte, part string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// scalarText is the value of a key attribute of a type.
func scalarText(av types.AttributeValue, kind types.ScalarAttributeType) (text string, ok bool) {
	if found, _ := kindOf(av); found != kind {
		return "", false
	}
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, true
	case *types.AttributeValueMemberN:
		return v.Value, true
	case *types.AttributeValueMemberB:
		return string(v.Value), true
	}
	return "", false
}

// scalarOf is the key attribute of a type that a text is the value of.
func scalarOf(text []byte, kind types.ScalarAttributeType) (types.AttributeValue, bool) {
	switch kind {
	case types.ScalarAttributeTypeS:
		return &types.AttributeValueMemberS{Value: string(text)}, utf8.Valid(text)
	case types.ScalarAttributeTypeN:
		return &types.AttributeValueMemberN{Value: string(text)}, isNumber(string(text))
	case types.ScalarAttributeTypeB:
		return &types.AttributeValueMemberB{Value: slices.Clone(text)}, true
	}
	return nil, false
}

// isNumber says whether a text is a number, as far as DynamoDB will not say so.
func isNumber(text string) bool {
	if len(text) > maxNumber {
		return false
	}
	number, _, err := apd.NewFromString(text)
	return err == nil && number.Form == apd.Finite
}

// blameCursor tells who sent a position that DynamoDB does not take, such as one
// beyond what Where now states of the sort key.
func (q *Query) blameCursor(err error) error {
	if q.cursor == "" {
		return err
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok && answer.ErrorCode() == "ValidationException" {
		return fmt.Errorf("%w: Cursor: DynamoDB does not take its position for this query: %w", ErrInvalidQuery, err)
	}
	return err
}
