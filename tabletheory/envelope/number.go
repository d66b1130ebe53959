package envelope

import (
	"fmt"

	"github.com/cockroachdb/apd/v3"
)

// The bounds of DynamoDB's numbers: significant digits, and the exponent of the
// first of them. Longer texts than maxNumberText, which no number needs, are
// refused unread.
const (
	maxDigits     = 38
	minExponent   = -130
	maxExponent   = 125
	maxNumberText = 256
)

// canonicalNumber returns the number written in s as DynamoDB returns it: plain
// decimal, without an exponent and without superfluous zeros or signs.
func canonicalNumber(s string) (string, error) {
	if len(s) > maxNumberText {
		return "", fmt.Errorf("a number of %d characters: DynamoDB has %d digits", len(s), maxDigits)
	}
	d, _, err := apd.NewFromString(s)
	if err != nil || d.Form != apd.Finite {
		return "", fmt.Errorf("%q is not a number", s)
	}
	if d.IsZero() {
		return "0", nil
	}
	d.Reduce(d)
	digits := d.NumDigits()
	exponent := int64(d.Exponent) + digits - 1
	if digits > maxDigits || exponent < minExponent || exponent > maxExponent {
		return "", fmt.Errorf("the number %s is out of DynamoDB's range: %d digits, and 1E%d to 9.9E%d", s, maxDigits, minExponent, maxExponent)
	}
	return d.Text('f'), nil
}
