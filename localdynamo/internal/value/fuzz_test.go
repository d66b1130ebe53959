package value_test

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/apd/v3"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// The checks below are shared by the fuzz targets and the rapid tests.

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// FuzzNumbers: parsing, order, sum and difference agree with apd.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "1", "1.0", "007", ".5", "5.", "1e2", "1E-130", "9.9999999999999999999999999999999999999e125", "-99999999999999999999999999999999999999",
		"1e-131", "1e126", "123456789012345678901234567890123456789", "+1", "0e999999999", "NaN", "4611686018427387904", "-4611686018427387905",
	} {
		f.Add(s, "-1.5e-3")
		f.Add("99999999999999999999999999999999999999", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := value.Canonical(a)
		y, errY := value.Canonical(b)
		if errX == nil {
			checkCanonical(t, a, x)
		} else {
			checkRejected(t, a)
		}
		if errX == nil && errY == nil {
			checkNumbers(t, x, y)
		}
	})
}

// FuzzKeyOrder: the byte order of keys is the order of their values.
func FuzzKeyOrder(f *testing.F) {
	f.Add(uint8(0), []byte("a"), []byte("a\x00"), []byte("b"))
	f.Add(uint8(0), []byte(""), []byte("\x00\x01"), []byte("\x00\xff"))
	f.Add(uint8(1), []byte("1e-130"), []byte("-9.9e125"), []byte(""))
	f.Add(uint8(1), []byte("100"), []byte("99.9"), []byte("x"))
	f.Add(uint8(1), []byte("-100"), []byte("-1e2"), []byte("\xff"))
	f.Add(uint8(2), []byte("\xff\xff"), []byte("\xff"), []byte("\x00"))
	f.Fuzz(func(t *testing.T, kind uint8, a, b, tail []byte) {
		x, y := keyValue(kind, a), keyValue(kind, b)
		if x == nil || y == nil {
			t.Skip("not a number")
		}
		checkKeyOrder(t, x, y, &types.AttributeValueMemberS{Value: string(tail)})
	})
}

// keyValue returns fuzzed bytes as a canonical key value, or nil if they are not a
// valid number.
func keyValue(kind uint8, b []byte) types.AttributeValue {
	switch kind % 3 {
	case 0:
		return &types.AttributeValueMemberS{Value: string(b)}
	case 1:
		n, err := value.Canonical(string(b))
		if err != nil {
			return nil
		}
		return &types.AttributeValueMemberN{Value: n}
	}
	return &types.AttributeValueMemberB{Value: b}
}

// checkKeyOrder checks the encoding of two canonical key values of the same type. tail
// may have another type.
func checkKeyOrder(t tester, a, b, tail types.AttributeValue) {
	t.Helper()
	want, ok := value.Compare(a, b)
	if !ok {
		t.Fatal("not comparable")
	}
	x, y := encodeKey(t, a), encodeKey(t, b)
	if got := bytes.Compare(x, y); got != cmp.Compare(want, 0) {
		t.Fatalf("%x %x: %d, want %d", x, y, got, want)
	}
	// In a concatenation the first key decides and the second breaks ties. No key is
	// a prefix of another.
	joined := append(bytes.Clone(x), encodeKey(t, tail)...)
	if got := bytes.Compare(joined, y); want != 0 && got != cmp.Compare(want, 0) {
		t.Fatalf("%x %x: the tail changes the order", x, y)
	}
	if want != 0 && bytes.HasPrefix(y, x) {
		t.Fatalf("%x is a prefix of %x", x, y)
	}
	decoded, rest, ok := value.DecodeKey(types.ScalarAttributeType(value.Type(a)), joined)
	if order, _ := value.Compare(decoded, a); !ok || order != 0 || !bytes.Equal(rest, joined[len(x):]) {
		t.Fatalf("%x decodes to %v, %x (%v), want %v", joined, decoded, rest, ok, a)
	}
	end := value.PrefixEnd(x)
	if end != nil && (bytes.Compare(joined, end) >= 0 || want < 0 && bytes.Compare(y, end) < 0) {
		t.Fatalf("PrefixEnd(%x) = %x", x, end)
	}
}

func encodeKey(t tester, v types.AttributeValue) []byte {
	t.Helper()
	k, err := value.AppendKey(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// checkNumbers compares order and arithmetic with apd. a and b are canonical.
func checkNumbers(t tester, a, b string) {
	t.Helper()
	x, y := exact(t, a), exact(t, b)
	if got, want := cmp.Compare(value.CompareNumbers(a, b), 0), x.Cmp(y); got != want {
		t.Fatalf("compare %s %s: %d, want %d", a, b, got, want)
	}
	context := apd.BaseContext.WithPrecision(400)
	for name, op := range map[string]struct {
		ours func(a, b string) (string, error)
		apds func(d, x, y *apd.Decimal) (apd.Condition, error)
	}{"+": {value.Add, context.Add}, "-": {value.Subtract, context.Sub}} {
		var want apd.Decimal
		if _, err := op.apds(&want, x, y); err != nil {
			t.Fatal(err)
		}
		got, err := op.ours(a, b)
		if err != nil {
			if storable(&want) {
				t.Fatalf("%s %s %s: %v", a, name, b, err)
			}
			continue
		}
		if exact(t, got).Cmp(&want) != 0 {
			t.Fatalf("%s %s %s: %s, want %s", a, name, b, got, want.String())
		}
		checkCanonical(t, want.Text('f'), got)
	}
}

// checkCanonical checks that c is the canonical text of the number s.
func checkCanonical(t tester, s, c string) {
	t.Helper()
	given, _, err := apd.NewFromString(s)
	switch d := exact(t, c); {
	case err != nil && d.IsZero(): // a zero whose exponent is out of apd's range
	case err != nil || d.Cmp(given) != 0 || !storable(d):
		t.Fatalf("%q became %q: %v", s, c, err)
	}
	if again, err := value.Canonical(c); err != nil || again != c {
		t.Fatalf("%q is not canonical: %q, %v", c, again, err)
	}
}

// checkRejected checks that s, which was rejected, is not a number within the bounds.
func checkRejected(t tester, s string) {
	t.Helper()
	if len(s) > 200 {
		return // slow for apd
	}
	d, _, err := apd.NewFromString(s)
	// A zero is accepted or rejected by its exponent as written, which apd drops.
	if err == nil && d.Form == apd.Finite && storable(d) && !d.IsZero() {
		t.Fatalf("%q was rejected", s)
	}
}

func exact(t tester, s string) *apd.Decimal {
	t.Helper()
	d, _, err := apd.NewFromString(s)
	if err != nil {
		t.Fatal(fmt.Errorf("%q: %w", s, err))
	}
	return d
}

// storable reports whether d is within DynamoDB's bounds.
func storable(d *apd.Decimal) bool {
	var reduced apd.Decimal
	reduced.Reduce(d)
	first := int64(reduced.Exponent) + reduced.NumDigits() - 1
	return reduced.IsZero() || reduced.NumDigits() <= 38 && first <= 125 && first >= -130
}
