package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// A MalformedError names an attribute of a stored row that is missing, or has a wrong
// type or value. [store.Record.Malformed] has one.
type MalformedError struct {
	PK, SK string
	// Attribute is the name; a dot precedes the name of a map member.
	Attribute string
	// Expected and Found are descriptions for people.
	Expected, Found string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("row pk=%s sk=%s is malformed: %s: expected %s, found %s", e.PK, e.SK, e.Attribute, e.Expected, e.Found)
}

// malformed returns the error of an attribute, or of a member of a map.
func (r row) malformed(attribute, expected string) *MalformedError {
	found := r
	names := strings.Split(attribute, ".")
	for _, name := range names[:len(names)-1] {
		found = found.child(name)
	}
	return &MalformedError{
		PK: r.text(attrPK), SK: r.text(attrSK), Attribute: attribute,
		Expected: expected, Found: describe(found[names[len(names)-1]]),
	}
}

// required is an attribute that must exist and have the right type. A model cannot
// check that, because it decodes a missing attribute as zero.
type required struct {
	name     string
	expected expectation
}

// check returns an error unless attrs, the row itself or a map in it, has the
// attributes. prefix is the name of the map and a dot, or empty.
func (r row) check(prefix string, attrs row, attributes []required) error {
	for _, d := range attributes {
		_, isNumber := attrs[d.name].(*types.AttributeValueMemberN)
		if d.expected == expectedText && attrs.text(d.name) == "" || d.expected != expectedText && !isNumber {
			return r.malformed(prefix+d.name, string(d.expected))
		}
	}
	return nil
}

// decode decodes a row into dest, a pointer to its model. If an attribute has a wrong
// type or value, the error is a *[MalformedError].
func (s *Store) decode(ctx context.Context, found row, dest any) error {
	err := s.db.UnmarshalItem(ctx, found, dest)
	malformed, ok := errors.AsType[*tabletheory.DecodeError](err)
	if !ok {
		return err
	}
	expected, ok := malformed.Err.(expectation)
	if !ok {
		expected = "a string" // the only type without an expectation
	}
	return found.malformed(malformed.Path, string(expected))
}

// describe returns an attribute for an error message: its type, and its value if it
// is short.
func describe(value types.AttributeValue) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case *types.AttributeValueMemberS:
		return "string " + strconv.Quote(shorten(v.Value))
	case *types.AttributeValueMemberN:
		return "number " + shorten(v.Value)
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("%d bytes of binary", len(v.Value))
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("boolean %t", v.Value)
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberM:
		return fmt.Sprintf("a map of %d", len(v.Value))
	case *types.AttributeValueMemberL:
		return fmt.Sprintf("a list of %d", len(v.Value))
	}
	return "a set"
}

// shorten truncates a text for an error message.
func shorten(s string) string {
	const longest = 48
	if len(s) <= longest {
		return s
	}
	return cut(s, longest) + "…"
}

// cut returns at most longest bytes of a text, without splitting a character.
func cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return s[:longest]
}
