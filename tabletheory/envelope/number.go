package envelope

import (
	"errors"
	"fmt"

	"github.com/facetheory/isr/internal/decimal"
)

// maxNumberText is the maximum length of a number in bytes. No valid canonical number
// is longer; longer texts are rejected without parsing.
const maxNumberText = 256

// canonicalNumber returns the number s as DynamoDB returns it: plain decimal, without
// exponent and without redundant zeros or signs.
func canonicalNumber(s string) (string, error) {
	if len(s) > maxNumberText {
		return "", fmt.Errorf("number of %d characters: DynamoDB numbers have at most %d digits", len(s), decimal.MaxDigits)
	}
	text, err := decimal.Canonical(s)
	switch {
	case errors.Is(err, decimal.ErrSyntax):
		return "", fmt.Errorf("%q is not a number", s)
	case err != nil:
		return "", fmt.Errorf("number %s is out of range: DynamoDB numbers have at most %d digits and a magnitude of 1E%d to 9.9E%d",
			s, decimal.MaxDigits, decimal.MinExponent, decimal.MaxExponent)
	}
	return text, nil
}
