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

// A cursor is the end of a page, as text that is safe in a URL:
//
//	base64url( version 1 byte, binding 16 bytes, { length uvarint, value }… )
//
// The values are the key attributes of the last item, except the partition key of
// the query. The binding is a hash of the partition key and everything else that
// the cursor belongs to. So a cursor does not reveal its partition, is refused in
// another one, and cannot read anything that the query itself does not read. It is
// neither secret nor signed: a client can forge another position in the partition.
const (
	cursorVersion = 1
	bindingSize   = 16
	maxCursor     = 8 << 10 // characters; DynamoDB's longest keys need less
)

// maxKeyValue bounds a value in a cursor, in bytes: DynamoDB's longest partition
// key. maxNumber bounds a number: DynamoDB writes up to 126 digits before the
// decimal point, or 130 after it.
const (
	maxKeyValue = 2048
	maxNumber   = 256
)

// encodeCursor returns the cursor of a position, or "" at the end.
func (r *pager) encodeCursor(next model.Item) (string, error) {
	if len(next) == 0 {
		return "", nil
	}
	hash, _ := r.keyFields()
	text := append([]byte{cursorVersion}, r.binding(r.partition[hash.Attribute])...)
	for _, field := range r.cursorFields() {
		value, ok := scalarText(next[field.Attribute], field.Key)
		if !ok {
			return "", r.failure(r.op, r.partition, fmt.Errorf("DynamoDB returned a LastEvaluatedKey whose key %s is not of type %s", field.Attribute, field.Key))
		}
		text = appendPart(text, value)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// decodeCursor returns the position of the query's cursor, or nil if there is no
// cursor.
func (q *Query) decodeCursor(partition types.AttributeValue) (model.Item, error) {
	if q.cursor == "" {
		return nil, nil
	}
	if len(q.cursor) > maxCursor {
		return nil, invalid("Cursor: %d characters, but a cursor has at most %d", len(q.cursor), maxCursor)
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(q.cursor)
	if err != nil || len(text) < 1+bindingSize {
		return nil, invalid("Cursor: not a cursor from Page.NextCursor")
	}
	if text[0] != cursorVersion {
		return nil, invalid("Cursor: version %d, but this program supports version %d: start at the first page", text[0], cursorVersion)
	}
	if !slices.Equal(text[1:1+bindingSize], q.binding(partition)) {
		return nil, invalid("Cursor: it belongs to another query: use the model, table, index, partition key and direction of its page")
	}
	return q.decodePosition(partition, text[1+bindingSize:])
}

// decodePosition decodes the values of a cursor.
func (q *Query) decodePosition(partition types.AttributeValue, values []byte) (model.Item, error) {
	hash, _ := q.keyFields()
	position := model.Item{hash.Attribute: partition}
	for _, field := range q.cursorFields() {
		length, n := binary.Uvarint(values)
		if n <= 0 || length > maxKeyValue || length > uint64(len(values)-n) {
			return nil, invalid("Cursor: it is damaged")
		}
		value, ok := scalarOf(values[n:n+int(length)], field.Key)
		if !ok {
			return nil, invalid("Cursor: it is damaged: key %s is not of type %s", field.Name, field.Key)
		}
		position[field.Attribute] = value
		values = values[n+int(length):]
	}
	if len(values) > 0 {
		return nil, invalid("Cursor: it is damaged: trailing data")
	}
	return position, nil
}

// cursorFields returns the key attributes whose values a cursor has.
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

// binding returns the hash of what a cursor belongs to.
func (q *Query) binding(partition types.AttributeValue) []byte {
	index := ""
	if q.index != nil {
		index = q.index.Name
	}
	hash, _ := q.keyFields()
	value, _ := scalarText(partition, hash.Key)
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

// appendPart appends a text with its length before it, so that different lists
// of texts have different encodings.
func appendPart(b []byte, part string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// scalarText returns the value of a key attribute. ok is false if it has another
// type.
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

// scalarOf returns the key attribute with this value. ok is false if the type
// has no such value.
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

// isNumber reports whether a text is a finite number. DynamoDB checks its range.
func isNumber(text string) bool {
	if len(text) > maxNumber {
		return false
	}
	number, _, err := apd.NewFromString(text)
	return err == nil && number.Form == apd.Finite
}

// cursorError names the cursor in an error if DynamoDB refuses its position,
// such as one outside of the sort key range of Where.
func (q *Query) cursorError(err error) error {
	if q.cursor == "" {
		return err
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok && answer.ErrorCode() == "ValidationException" {
		return fmt.Errorf("%w: Cursor: DynamoDB refuses its position for this query: %w", ErrInvalidQuery, err)
	}
	return err
}
