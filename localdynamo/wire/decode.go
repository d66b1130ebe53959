package wire

import (
	"bytes"
	"encoding/base64"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// decoder decodes a JSON body. Its methods return a SerializationException for JSON
// that does not have the shape of the operation's input. Invalid values of the right
// shape do not end decoding; the first one is kept in deferred.
type decoder struct {
	json jx.Decoder
	body []byte
	text string // a copy of body that attribute values share

	// deferred is the first ValidationException. AWS reports it only after it has
	// parsed the whole body.
	deferred error
}

func (d *decoder) reset(body []byte) {
	d.body, d.text, d.deferred = body, "", nil
	d.json.ResetBytes(body)
}

func (d *decoder) deferError(err error) {
	if d.deferred == nil {
		d.deferred = err
	}
}

// begin starts decoding body.
func (d *decoder) begin(body []byte) error {
	d.reset(body)
	if !utf8.Valid(body) {
		return malformed("The body is not valid UTF-8")
	}
	d.text = string(body)
	return nil
}

// end requires the end of the body.
func (d *decoder) end() error {
	if err := d.json.Skip(); err != io.EOF {
		return malformed("The body has trailing data after its JSON value")
	}
	return nil
}

// null skips a null and reports whether there was one.
func (d *decoder) null() (bool, error) {
	if d.json.Next() != jx.Null {
		return false, nil
	}
	return true, notJSON(d.json.Null())
}

// nullElement skips a null element of a list or map, which is a validation error.
func (d *decoder) nullElement() (absent bool, err error) {
	absent, err = d.null()
	if absent {
		d.deferError(validation("1 validation error detected: a value in a list or map is null and failed to satisfy constraint: Member must not be null"))
	}
	return absent, err
}

// object calls member for each member that is not null. key is valid until the next
// read.
func (d *decoder) object(member func(key []byte) error) error {
	members, err := d.json.ObjIter()
	if err != nil {
		return notJSON(err)
	}
	for members.Next() {
		if absent, err := d.null(); err != nil {
			return err
		} else if absent {
			continue
		}
		if err := member(members.Key()); err != nil {
			return err
		}
	}
	return notJSON(members.Err())
}

// list calls element for each element.
func (d *decoder) list(element func() error) error {
	elements, err := d.json.ArrIter()
	if err != nil {
		return notJSON(err)
	}
	for elements.Next() {
		if err := element(); err != nil {
			return err
		}
	}
	return notJSON(elements.Err())
}

func (d *decoder) skip() error { return notJSON(d.json.Skip()) }

// str decodes a string that does not share memory with the body.
func (d *decoder) str() (string, error) {
	raw, err := d.rawString()
	return string(raw), err
}

// sharedStr decodes a string that may be a substring of d.text and then keeps all of it
// in memory. It is for values that the engine encodes and does not retain.
func (d *decoder) sharedStr() (string, error) {
	raw, err := d.rawString()
	if err != nil || len(raw) == 0 {
		return "", err
	}
	return d.share(raw), nil
}

// share returns raw as a substring of d.text if it is a part of d.body. jx copies
// strings with escapes, so these are not.
func (d *decoder) share(raw []byte) string {
	at := cap(d.body) - cap(raw)
	if at >= 0 && at+len(raw) <= len(d.body) && &d.body[at] == &raw[0] {
		return d.text[at : at+len(raw)]
	}
	return string(raw)
}

func (d *decoder) rawString() ([]byte, error) {
	if d.json.Next() != jx.String {
		return nil, d.mismatch("String")
	}
	raw, err := d.json.StrBytes()
	return raw, notJSON(err)
}

func (d *decoder) boolean() (bool, error) {
	switch d.json.Next() {
	case jx.Bool:
		b, err := d.json.Bool()
		return b, notJSON(err)
	case jx.String:
		return false, malformed("Unexpected token received from parser")
	}
	return false, d.mismatch("Boolean")
}

// integer decodes a number and truncates its fraction.
func (d *decoder) integer(kind string, bits int) (int64, error) {
	number, err := d.number(kind)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseInt(number, 10, bits); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	limit := math.Ldexp(1, bits-1)
	if err != nil || f >= limit || f <= -limit-1 {
		return 0, malformed("Numeric value (" + number + ") out of range of " + kind)
	}
	return int64(f), nil
}

func (d *decoder) float() (float64, error) {
	number, err := d.number("Double")
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, malformed("Numeric value (" + number + ") out of range of Double")
	}
	return f, nil
}

// number returns the text of a JSON number.
func (d *decoder) number(kind string) (string, error) {
	if d.json.Next() != jx.Number {
		return "", d.mismatch(kind)
	}
	raw, err := d.json.Num()
	if len(raw) > maxDigits {
		return "", malformed("Numeric value of " + strconv.Itoa(len(raw)) + " digits")
	}
	return string(raw), notJSON(err)
}

// maxDigits bounds the text of a number. Every number in range is shorter.
const maxDigits = 400

// epoch decodes seconds since 1970 with millisecond precision.
func (d *decoder) epoch() (time.Time, error) {
	seconds, err := d.float()
	if err != nil {
		return time.Time{}, err
	}
	if math.Abs(seconds) > 1<<40 {
		return time.Time{}, malformed("Time out of range")
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
}

// blob decodes base64 as strictly as AWS: padded, without line breaks, and with zero
// trailing bits.
func (d *decoder) blob() ([]byte, error) {
	switch d.json.Next() {
	case jx.Array, jx.Object:
		return nil, d.mismatch("ByteBuffer")
	case jx.String:
	default:
		return nil, malformed("only base-64-encoded strings are convertible to bytes")
	}
	raw, err := d.json.StrBytes()
	if err != nil {
		return nil, notJSON(err)
	}
	if len(raw)%4 != 0 {
		return nil, malformed("Base64 encoded length is expected a multiple of 4 bytes but found: " + strconv.Itoa(len(raw)))
	}
	strict := base64.StdEncoding.Strict()
	decoded := make([]byte, strict.DecodedLen(len(raw)))
	n, err := strict.Decode(decoded, raw)
	if err != nil || bytes.ContainsAny(raw, "\r\n") {
		return nil, malformed("Invalid Base64: use the standard alphabet (A to Z, a to z, 0 to 9, + and /) with padding and without line breaks")
	}
	return decoded[:n], nil
}

// mismatch returns AWS's error for a next value that is not of the target type.
func (d *decoder) mismatch(target string) error {
	switch d.json.Next() {
	case jx.Object:
		return malformed("Start of structure or map found where not expected")
	case jx.Array:
		if target == "ByteBuffer" {
			return malformed("Unrecognized collection type class java.nio.ByteBuffer")
		}
		return malformed("Unrecognized collection type class java.lang." + target)
	case jx.String:
		return malformed("STRING_VALUE cannot be converted to " + target)
	case jx.Null:
		return malformed("NULL_VALUE cannot be converted to " + target)
	}
	raw, err := d.json.Raw()
	if err != nil {
		return notJSON(err)
	}
	token := "NUMBER_VALUE"
	switch {
	case raw[0] == 't':
		token = "TRUE_VALUE"
	case raw[0] == 'f':
		token = "FALSE_VALUE"
	case strings.ContainsAny(string(raw), ".eE"):
		token = "DECIMAL_VALUE"
	}
	return malformed(token + " cannot be converted to " + target)
}

// expect requires an object or a list as the next value. The errors are AWS's: class is
// the Java class that they name, scalar the message for a scalar.
func (d *decoder) expect(want jx.Type, class, scalar string) error {
	got := d.json.Next()
	switch {
	case got == want:
		return nil
	case got == jx.Array:
		return malformed("Unrecognized collection type " + class)
	case got == jx.Object:
		return malformed("Start of structure or map found where not expected")
	case got == jx.Invalid:
		return d.skip()
	}
	return malformed(scalar)
}
