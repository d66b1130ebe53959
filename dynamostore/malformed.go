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

// A MalformedError says which attribute of a stored row cannot be what it is
// there for. [store.Record.Malformed] holds one.
type MalformedError struct {
	PK, SK string
	// Attribute is the name, with a dot before the name of a map's member.
	Attribute string
	// Expected and Found are for people.
	Expected, Found string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("row pk=%s sk=%s is malformed: %s: expected %s, found %s", e.PK, e.SK, e.Attribute, e.Expected, e.Found)
}

// malformed is the error of an attribute, or of a member of a map, that is not
// what was expected.
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

// required is an attribute that must be there, of the right type. A model cannot
// tell: to it, an attribute that is missing is one that is zero.
type required struct {
	name     string
	expected expectation
}

// check demands attributes of a map in the row, or of the row itself: a prefix is
// its name, with a dot.
func (r row) check(prefix string, attrs row, demanded []required) error {
	for _, d := range demanded {
		_, isNumber := attrs[d.name].(*types.AttributeValueMemberN)
		if d.expected == expectedText && attrs.text(d.name) == "" || d.expected != expectedText && !isNumber {
			return r.malformed(prefix+d.name, string(d.expected))
		}
	}
	return nil
}

// decode reads a row into dest, a pointer to its model. If an attribute does not
// fit, the error is a *[MalformedError].
func (s *Store) decode(ctx context.Context, found row, dest any) error {
	err := s.db.UnmarshalItem(ctx, found, dest)
	unfit, ok := errors.AsType[*tabletheory.DecodeError](err)
	if !ok {
		return err
	}
	expected, ok := unfit.Err.(expectation)
	if !ok {
		expected = "a string" // which is all that has no type of its own
	}
	return found.malformed(unfit.Path, string(expected))
}

// describe is an attribute for an error message: its type, and its value if it
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

// shorten cuts a text that would make a message unreadable.
func shorten(s string) string {
	const longest = 48
	if len(s) <= longest {
		return s
	}
	return cut(s, longest) + "…"
}

// cut returns so many bytes of a text at most, and no part of a character.
func cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return s[:longest]
}
