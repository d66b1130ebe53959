package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gowebpki/jcs"
)

// maxInputs is the longest JSON of the inputs of a request, in bytes.
const maxInputs = 64 << 10

// HashInputs returns the hex SHA-256 of the canonical JSON (RFC 8785) of a value. It is
// the same in every language, whatever the order of members or the spelling of numbers and
// strings. spec/vectors/request-hashes.json has examples.
//
// The value is encoded by encoding/json first, which replaces invalid UTF-8 by U+FFFD; a
// [json.RawMessage] is used unchanged. HashInputs refuses JSON that two languages may read
// differently: integers that a float64 would round (write them as strings), numbers out of
// its range, repeated names and text that is not Unicode. It also refuses JSON of more than
// 64 KiB.
func HashInputs(v any) (string, error) {
	canonical, err := canonicalInputs(v)
	if err != nil {
		return "", fmt.Errorf("hashing the inputs of a request: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

func canonicalInputs(v any) ([]byte, error) {
	text, raw := v.(json.RawMessage)
	if !raw {
		// encoding/json would compact a RawMessage and replace invalid UTF-8 in it.
		var err error
		if text, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	if len(text) > maxInputs {
		return nil, fmt.Errorf("the JSON has %d bytes (at most %d are allowed)", len(text), maxInputs)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return canonical, exactIntegers(text)
}

// exactIntegers refuses integers that a float64 would round, so that two different
// integers never have the same hash: a number without a fraction or an exponent must be
// its own canonical form.
func exactIntegers(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number, ok := token.(json.Number)
		if !ok || strings.ContainsAny(number.String(), ".eE") || number == "-0" {
			continue
		}
		f, err := number.Float64()
		if err != nil {
			return err
		}
		if canonical, err := jcs.NumberToJSON(f); err != nil || canonical != number.String() {
			return fmt.Errorf("the integer %.40s is not exact in every language; write it as a string", number)
		}
	}
}
