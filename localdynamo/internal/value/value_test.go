package value_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// number draws a number in any notation, mostly within DynamoDB's bounds.
func number() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		whole := rapid.StringMatching(`0{0,2}[0-9]{0,19}`).Draw(t, "whole")
		fraction := rapid.StringMatching(`[0-9]{0,18}0{0,2}`).Draw(t, "fraction")
		if whole+fraction == "" {
			whole = "0"
		}
		exponent := rapid.OneOf(rapid.Just(0), rapid.IntRange(-110, 105)).Draw(t, "exponent")
		s := sign + whole
		if fraction != "" {
			s += "." + fraction
		}
		if exponent != 0 {
			s += fmt.Sprintf("e%d", exponent)
		}
		return s
	})
}

func canonical(t *rapid.T, s string) string {
	c, err := value.Canonical(s)
	if err != nil {
		t.Skip(err)
	}
	return c
}

func TestCanonicalNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := number().Draw(t, "number")
		c := canonical(t, s)
		if exact(t, s).Cmp(exact(t, c)) != 0 {
			t.Fatalf("%q became %q", s, c)
		}
		if again := canonical(t, c); again != c {
			t.Fatalf("%q is not canonical: %q", c, again)
		}
		if strings.ContainsAny(c, "eE+") || strings.Contains(c, ".") && strings.HasSuffix(c, "0") {
			t.Fatalf("%q is not a plain decimal", c)
		}
	})
}

func TestArithmeticAgainstApd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkNumbers(t, canonical(t, number().Draw(t, "a")), canonical(t, number().Draw(t, "b")))
	})
}

func TestNumberSyntaxAndRange(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 38)
	for _, c := range []struct{ in, want string }{
		{"1.0", "1"},
		{"1e2", "100"},
		{"-0", "0"},
		{"-0.0", "0"},
		{"007", "7"},
		{".5", "0.5"},
		{"5.", "5"},
		{"1E+2", "100"},
		{"1e125", "1" + strings.Repeat("0", 125)},
		{"1e-130", "0." + strings.Repeat("0", 129) + "1"},
		{nines, nines},
		{nines + "e88", nines + strings.Repeat("0", 88)},
		{nines + "0", nines + "0"},
		{"+1", "1"},
		{"+.5e+1", "5"},
		{"1e0000000000000000000002", "100"},
		{"0e125", "0"},
		{"0e-130", "0"},
		{"", ""},
		{"-", ""},
		{".", ""},
		{"+", ""},
		{"+-1", ""},
		{"-+1", ""},
		{"0e126", ""},
		{"0e-131", ""},
		{"0e99999999999999999999", ""},
		{" 1", ""},
		{"1 ", ""},
		{"1e", ""},
		{"1e+", ""},
		{"e1", ""},
		{"1.2.3", ""},
		{"0x1", ""},
		{"NaN", ""},
		{"Infinity", ""},
		{"١", ""},
		{"1_0", ""},
		{"1e126", ""},
		{"1e-131", ""},
		{nines + "9", ""},
		{"1e" + nines, ""},
		{"--1", ""},
	} {
		got, err := value.Canonical(c.in)
		if (err != nil) != (c.want == "") || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// scalar draws a canonical key value.
func scalar(kind string) *rapid.Generator[types.AttributeValue] {
	// Few letters, so that prefixes and ties are frequent. Bytes 0x00 and 0xff,
	// because keys treat them specially.
	text := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01a\u00ff")), 0, 6, -1), rapid.String())
	return rapid.Custom(func(t *rapid.T) types.AttributeValue {
		switch kind {
		case "N":
			near := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(-1000, 1000).Draw(t, "near")) })
			return &types.AttributeValueMemberN{Value: canonical(t, rapid.OneOf(number(), near).Draw(t, "number"))}
		case "B":
			return &types.AttributeValueMemberB{Value: rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})).Draw(t, "binary")}
		}
		return &types.AttributeValueMemberS{Value: text.Draw(t, "string")}
	})
}

func TestKeyOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"S", "N", "B"} {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			a, b, tail := scalar(kind).Draw(t, "a"), scalar(kind).Draw(t, "b"), scalar("S").Draw(t, "tail")
			checkKeyOrder(t, a, b, tail)
		}))
	}
}

func TestKeyPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"S", "B"}).Draw(t, "kind")
		whole, part := scalar(kind).Draw(t, "whole"), scalar(kind).Draw(t, "part")
		prefix, err := value.AppendKeyPrefix(nil, part)
		if err != nil {
			t.Fatal(err)
		}
		want := false
		switch whole := whole.(type) {
		case *types.AttributeValueMemberS:
			want = strings.HasPrefix(whole.Value, part.(*types.AttributeValueMemberS).Value)
		case *types.AttributeValueMemberB:
			want = bytes.HasPrefix(whole.Value, part.(*types.AttributeValueMemberB).Value)
		}
		k := encodeKey(t, whole)
		if got := bytes.HasPrefix(k, prefix); got != want {
			t.Fatalf("%x %x: %v, want %v", k, prefix, got, want)
		}
	})
}

// anyValue draws a value of any type, nested at most depth levels deep.
func anyValue(depth int) *rapid.Generator[types.AttributeValue] {
	return rapid.Custom(func(t *rapid.T) types.AttributeValue {
		n := 8
		if depth > 0 {
			n = 10
		}
		texts := rapid.SliceOfNDistinct(rapid.String(), 1, 5, rapid.ID[string])
		switch rapid.IntRange(1, n).Draw(t, "type") {
		case 1:
			return &types.AttributeValueMemberN{Value: canonical(t, number().Draw(t, "n"))}
		case 2:
			return &types.AttributeValueMemberB{Value: rapid.SliceOf(rapid.Byte()).Draw(t, "b")}
		case 3:
			return &types.AttributeValueMemberBOOL{Value: rapid.Bool().Draw(t, "bool")}
		case 4:
			return &types.AttributeValueMemberNULL{Value: true}
		case 5:
			return &types.AttributeValueMemberSS{Value: texts.Draw(t, "ss")}
		case 6:
			var set []string
			for i := range rapid.IntRange(1, 5).Draw(t, "ns") {
				set = append(set, fmt.Sprintf("%d.50", i))
			}
			return &types.AttributeValueMemberNS{Value: set}
		case 7:
			var set [][]byte
			for _, s := range texts.Draw(t, "bs") {
				set = append(set, []byte(s))
			}
			return &types.AttributeValueMemberBS{Value: set}
		case 9:
			return &types.AttributeValueMemberL{Value: rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "l")}
		case 10:
			return &types.AttributeValueMemberM{Value: anyItem(depth-1).Draw(t, "m")}
		}
		return &types.AttributeValueMemberS{Value: rapid.String().Draw(t, "s")}
	})
}

func anyItem(depth int) *rapid.Generator[map[string]types.AttributeValue] {
	return rapid.MapOfN(rapid.StringN(1, 10, -1), anyValue(depth), 0, 5)
}

func TestItemRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item, err := value.NormalizeItem(anyItem(3).Draw(t, "item"))
		if err != nil {
			t.Fatal(err)
		}
		encoded := value.Encode(nil, item)
		view := value.View(encoded)
		decoded, err := view.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if !value.EqualItems(item, decoded) {
			t.Fatalf("%v became %v", item, decoded)
		}
		if view.Size() != value.ItemSize(item) {
			t.Fatalf("size %d, want %d", view.Size(), value.ItemSize(item))
		}
		if !bytes.Equal(value.Encode(nil, decoded), encoded) {
			t.Fatal("encoding is not deterministic")
		}
		for name, want := range item {
			if got, err := view.Lookup(name); err != nil || !value.Equal(got, want) || !value.Equal(value.Clone(got), want) {
				t.Fatalf("Lookup(%q): %v, %v", name, got, err)
			}
		}
		absent := rapid.String().Draw(t, "absent")
		if got, err := view.Lookup(absent); err != nil || (got == nil) != (item[absent] == nil) {
			t.Fatalf("Lookup(%q): %v, %v", absent, got, err)
		}
	})
}

// FuzzDecode: decoding any bytes terminates without a panic.
func FuzzDecode(f *testing.F) {
	f.Add(value.Encode(nil, map[string]types.AttributeValue{
		"a": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberNULL{Value: true}}},
		"b": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"c": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"d": &types.AttributeValueMemberN{Value: "1"}}},
	}))
	f.Fuzz(func(t *testing.T, stored []byte) {
		view := value.View(stored)
		view.Size()
		_, _ = view.Lookup("b")
		if item, err := view.Decode(); err == nil {
			value.Encode(nil, item)
		}
	})
}

func TestSize(t *testing.T) {
	t.Parallel()
	n := func(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
	for _, c := range []struct {
		v    types.AttributeValue
		want int
	}{
		{n("0"), 1},
		{n("1"), 2},
		{n("12"), 2},
		{n("123"), 3},
		{n("-123"), 4},
		{n("100"), 2},
		{n("0.05"), 2},
		{n("10.05"), 3},
		{n("1010"), 3},
		{n("1.5"), 3},
		{n("0.15"), 2},
		{n("-0.15"), 3},
		{n("1.234"), 4},
		{n("3.14159"), 5},
		{n("314159"), 4},
		{n("100.5"), 4},
		{n("0.0000001"), 2},
		{&types.AttributeValueMemberS{Value: "é"}, 2},
		{&types.AttributeValueMemberBOOL{}, 1},
		{&types.AttributeValueMemberNULL{Value: true}, 1},
		{&types.AttributeValueMemberL{}, 3},
		{&types.AttributeValueMemberL{Value: []types.AttributeValue{n("1")}}, 6},
		{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"ab": n("1")}}, 8},
		{&types.AttributeValueMemberSS{Value: []string{"a", "bc"}}, 3},
	} {
		if got := value.Size(c.v); got != c.want {
			t.Errorf("%v: %d, want %d", c.v, got, c.want)
		}
	}
}

func TestMaxDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) map[string]types.AttributeValue {
		var v types.AttributeValue = &types.AttributeValueMemberS{Value: "x"}
		for range n {
			v = &types.AttributeValueMemberL{Value: []types.AttributeValue{v}}
		}
		return map[string]types.AttributeValue{"v": v}
	}
	for n, ok := range map[int]bool{31: true, 32: false} {
		item, err := value.NormalizeItem(nested(n))
		if (err == nil) != ok {
			t.Errorf("%d levels: %v", n, err)
		}
		if err := value.CheckDepth(nested(n)); (err == nil) != ok {
			t.Errorf("%d levels: %v", n, err)
		}
		if ok {
			if _, err := value.View(value.Encode(nil, item)).Decode(); err != nil {
				t.Errorf("%d levels: decode: %v", n, err)
			}
		}
	}
}

// TestNumberSetOrder: number sets are sorted by value, including those from older
// files, which sorted them as text.
func TestNumberSetOrder(t *testing.T) {
	t.Parallel()
	set := func(members ...string) types.AttributeValue { return &types.AttributeValueMemberNS{Value: members} }
	normalized, err := value.Normalize(set("10", "9", "-1", "0.5", "-20"))
	if err != nil {
		t.Fatal(err)
	}
	if want := set("-20", "-1", "0.5", "9", "10"); !value.Equal(normalized, want) {
		t.Errorf("got %v, want %v", normalized, want)
	}
	if got, want := value.Union(set("2", "10"), set("1", "9")), set("1", "2", "9", "10"); !value.Equal(got, want) {
		t.Errorf("union: got %v, want %v", got, want)
	}
	if got, want := value.Difference(set("1", "2", "9", "10"), set("2", "10")), set("1", "9"); !value.Equal(got, want) {
		t.Errorf("difference: got %v, want %v", got, want)
	}
	old := value.Item(value.Encode(nil, map[string]types.AttributeValue{"set": set("-1", "-20", "0.5", "10", "9")}))
	if got, err := old.Lookup("set"); err != nil || !value.Equal(got, normalized) {
		t.Errorf("from an older file: got %v, %v, want %v", got, err, normalized)
	}
}
