package envelope

import (
	"errors"
	"fmt"

	"github.com/facetheory/isr/internal/decimal"
)

// maxNumberText bounds the text of a number, in bytes. Longer ones, which no number
// needs, are refused unread.
const maxNumberText = 256

// canonicalNumber returns the number written in s as DynamoDB returns it: plain
// decimal, without an exponent and without superfluous zeros or signs.
func canonicalNumber(s string) (string, error) {
	if len(s) > maxNumberText {
		return "", fmt.Errorf("a number of %d characters: DynamoDB has %d digits", len(s), decimal.MaxDigits)
	}
	text, err := decimal.Canonical(s)
	switch {
	case errors.Is(err, decimal.ErrSyntax):
		return "", fmt.Errorf("%q is not a number", s)
	case err != nil:
		return "", fmt.Errorf("the number %s is out of DynamoDB's range: %d digits, and 1E%d to 9.9E%d",
			s, decimal.MaxDigits, decimal.MinExponent, decimal.MaxExponent)
	}
	return text, nil
}
