package decimal_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/internal/decimal"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	const longest = "12345678901234567890123456789012345678" // 38 digits
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0e9": "0", "-0.00": "0", "1.0": "1", "1e2": "100", "-1.50": "-1.5", "007": "7", ".5": "0.5", "+3": "3", "-7": "-7",
		"1E-130": "0." + strings.Repeat("0", 129) + "1", "9E+125": "9" + strings.Repeat("0", 125),
		longest: longest, "-" + longest: "-" + longest, longest + ".0": longest, "1.2345678901234567890123456789012345678e37": longest,
		strings.Repeat("0", 511) + "1": "1",
	} {
		if got, err := decimal.Canonical(in); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"": decimal.ErrSyntax, "-": decimal.ErrSyntax, ".": decimal.ErrSyntax, "x": decimal.ErrSyntax, "1 ": decimal.ErrSyntax, "0x1": decimal.ErrSyntax,
		"1_0": decimal.ErrSyntax, "NaN": decimal.ErrSyntax, "Infinity": decimal.ErrSyntax, "1e": decimal.ErrSyntax, "--1": decimal.ErrSyntax,
		"1e-99999999999999999999": decimal.ErrSyntax, strings.Repeat("0", 513): decimal.ErrSyntax,
		"1E126": decimal.ErrMagnitude, "-1E-131": decimal.ErrMagnitude, "1e99999": decimal.ErrMagnitude,
		longest + "9": decimal.ErrPrecision, "0." + longest + "9": decimal.ErrPrecision,
	} {
		if got, err := decimal.Canonical(in); !errors.Is(err, want) {
			t.Errorf("%q: %s, %v; want: %v", in, got, err, want)
		}
	}
}

// TestCanonicalTextIsUnique: two numbers have the same canonical text if and only if they
// are equal, and a canonical text is its own canonical text.
func TestCanonicalTextIsUnique(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`[+-]?[0-9]{1,6}(\.[0-9]{1,4})?([eE][+-]?[0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, y := rational(t, a), rational(t, b)
		if x.Cmp(y) == 0 != (canonical(t, a) == canonical(t, b)) {
			t.Fatalf("Canonical(%s) = %s, Canonical(%s) = %s", a, canonical(t, a), b, canonical(t, b))
		}
		text := canonical(t, a)
		if rational(t, text).Cmp(x) != 0 || canonical(t, text) != text || strings.ContainsAny(text, "eE+") {
			t.Fatalf("%s is not the canonical text of %s", text, a)
		}
	})
}

func canonical(t *rapid.T, s string) string {
	text, err := decimal.Canonical(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return text
}

func rational(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%s is not a number", s)
	}
	return r
}
