package dynamostore

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A MalformedError says which attribute of a stored row cannot be what it is
// there for. [isr.Record.Malformed] holds one.
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

// A decoder reads the attributes of one row, or of a map in it, and remembers
// the first that is malformed: callers read all, then look at err once.
type decoder struct {
	pk, sk string
	prefix string // "" or "isr."
	attrs  row
	err    *MalformedError
}

// fail notes what is wrong with an attribute, unless something already is.
func (d *decoder) fail(name, expected string) {
	if d.err == nil {
		d.err = &MalformedError{
			PK: d.pk, SK: d.sk, Attribute: d.prefix + name,
			Expected: expected, Found: describe(d.attrs[name]),
		}
	}
}

// absent says that an optional attribute is not there. Mappers of other
// languages write NULL for a field without a value, which means the same.
func (d *decoder) absent(name string) bool {
	value, ok := d.attrs[name]
	_, null := value.(*types.AttributeValueMemberNULL)
	return !ok || null
}

// text reads a string that must be there and not be empty.
func (d *decoder) text(name string) string {
	s := d.attrs.text(name)
	if s == "" {
		d.fail(name, "a string that is not empty")
	}
	return s
}

// optionalText reads a string that may be missing or empty.
func (d *decoder) optionalText(name string) string {
	if d.absent(name) {
		return ""
	}
	s, ok := d.attrs[name].(*types.AttributeValueMemberS)
	if !ok {
		d.fail(name, "a string")
		return ""
	}
	return s.Value
}

// number reads an integer that must be there, floored and saturated.
func (d *decoder) number(name, expected string) int64 {
	n, ok := d.attrs[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name, expected)
		return 0
	}
	value, err := floorNumber(n.Value)
	if err != nil {
		d.fail(name, expected)
	}
	return value
}

// count reads an integer within bounds; one that is optional and missing is 0.
func (d *decoder) count(name string, lowest, highest int64, optional bool) int64 {
	if optional && d.absent(name) {
		return 0
	}
	expected := fmt.Sprintf("a number from %d to %d", lowest, highest)
	n := d.number(name, expected)
	if n < lowest || n > highest {
		d.fail(name, expected)
	}
	return n
}

// moment reads a time that must be there.
func (d *decoder) moment(name string) time.Time {
	const expected = "a number of epoch seconds up to the year 9999"
	n := d.number(name, expected)
	if n < 0 || n > maxMoment {
		d.fail(name, expected)
	}
	return moment(n)
}

// optionalMoment reads a time that may be missing: the zero time.
func (d *decoder) optionalMoment(name string) time.Time {
	if d.absent(name) {
		return time.Time{}
	}
	return d.moment(name)
}

// horizon reads a time that may be missing and is clamped to what a time can be:
// for attributes that say "at least until".
func (d *decoder) horizon(name string) time.Time {
	if d.absent(name) {
		return time.Time{}
	}
	return moment(min(max(d.number(name, "a number of epoch seconds"), 0), maxMoment))
}

// interval reads a duration in seconds, clamped to [0, ten years].
func (d *decoder) interval(name string, optional bool) time.Duration {
	if optional && d.absent(name) {
		return 0
	}
	n := d.number(name, "a number of seconds")
	return time.Duration(min(max(n, 0), maxInterval)) * time.Second
}

// texts reads a list of strings that may be missing.
func (d *decoder) texts(name string) []string {
	if d.absent(name) {
		return nil
	}
	list, ok := stringList(d.attrs[name])
	if !ok {
		d.fail(name, "a list of strings")
	}
	return list
}

// stringList converts a list of strings. Binary members are bytes that are not
// valid UTF-8, which DynamoDB's strings cannot hold and header fields can.
func stringList(value types.AttributeValue) ([]string, bool) {
	list, ok := value.(*types.AttributeValueMemberL)
	if !ok {
		return nil, false
	}
	strings := make([]string, len(list.Value))
	for i, member := range list.Value {
		switch m := member.(type) {
		case *types.AttributeValueMemberS:
			strings[i] = m.Value
		case *types.AttributeValueMemberB:
			strings[i] = string(m.Value)
		default:
			return nil, false
		}
	}
	return strings, true
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
	cut := longest
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
