package store

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the test vectors in spec/ instead of checking them")

const requestHashes = "../spec/vectors/request-hashes.json"

// requestVectors is what the file of that name has for every language: the text
// of inputs, their canonical form and its hash, or why there is none.
type requestVectors struct {
	Accepted []acceptedInputs `json:"accepted"`
	Refused  []refusedInputs  `json:"refused"`
}

type acceptedInputs struct {
	Name      string `json:"name"`
	Inputs    string `json:"inputs"`
	Canonical string `json:"canonical"`
	SHA256    string `json:"sha256"`
}

type refusedInputs struct {
	Name   string `json:"name"`
	Inputs string `json:"inputs"`
}

func TestRequestHashVectors(t *testing.T) {
	v := requestVectors{
		Accepted: []acceptedInputs{
			{Name: "the default inputs", Inputs: `{"tenant":"","key":"example.com/news?page=2","route":"site"}`},
			{Name: "the default inputs of a tenant", Inputs: `{"route":"site","key":"example.com/","tenant":"acme"}`},
			{Name: "policy knobs", Inputs: `{"key":"example.com/","revalidate_seconds":60,"tags":["news","front"],"dry":false,"deploy":null}`},
			{Name: "RFC 8785, 3.2.2", Inputs: `{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`},
			{Name: "RFC 8785, 3.2.3: names in the order of UTF-16", Inputs: `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",` +
				`"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`},
			{Name: "a number", Inputs: " 42\n"},
			{Name: "a negative zero", Inputs: `[-0,-0.0,0]`},
			{Name: "the largest integer that is exact with all before it", Inputs: `[9007199254740991,-9007199254740991]`},
			{Name: "a float64 that looks like an integer", Inputs: `295147905179352830000`},
			{Name: "a fraction and an exponent that round", Inputs: `[9007199254740993.0,9007199254740993e0]`},
			{Name: "text", Inputs: `"</script> \u2028 ü €"`},
			{Name: "nothing", Inputs: `null`},
			{Name: "empty", Inputs: `[{},[],""]`},
		},
		Refused: []refusedInputs{
			{Name: "an integer that is not exact", Inputs: `9007199254740993`},
			{Name: "a long integer", Inputs: `{"id":12345678901234567890}`},
			{Name: "an integer that has an exponent in canonical form", Inputs: `1000000000000000000000`},
			{Name: "out of range", Inputs: `1e400`},
			{Name: "a repeated name", Inputs: `{"a":1,"\u0061":2}`},
			{Name: "half a surrogate pair", Inputs: `"\ud800"`},
			{Name: "two values", Inputs: `1 2`},
			{Name: "not JSON", Inputs: `{a:1}`},
			{Name: "a leading zero", Inputs: `01`},
			{Name: "nothing at all", Inputs: ``},
		},
	}
	for i := range v.Accepted {
		vector := &v.Accepted[i]
		canonical, err := canonicalInputs(json.RawMessage(vector.Inputs))
		if err != nil {
			t.Fatalf("%s: %v", vector.Name, err)
		}
		vector.Canonical = string(canonical)
		if vector.SHA256, err = HashInputs(json.RawMessage(vector.Inputs)); err != nil {
			t.Fatal(err)
		}
	}
	for _, vector := range v.Refused {
		if hash, err := HashInputs(json.RawMessage(vector.Inputs)); err == nil {
			t.Errorf("%s: accepted, %s", vector.Name, hash)
		}
	}
	checkVectors(t, requestHashes, v)
}

// checkVectors compares a file of test vectors with what it should be, or writes it.
func checkVectors(t *testing.T, name string, want any) {
	t.Helper()
	text := new(strings.Builder)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; write it with go test -run %s -update", err, t.Name())
	}
	if d := cmp.Diff(string(stored), text.String()); d != "" {
		t.Errorf("%s is not what the code does (-file +code); if that is meant, go test -run %s -update:\n%s", name, t.Name(), d)
	}
}

// TestCanonicalNumbers has the numbers of RFC 8785, appendix B.
func TestCanonicalNumbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		got, err := canonicalInputs(math.Float64frombits(bits))
		if err != nil || string(got) != want {
			t.Errorf("%016x: %s, %v, want %s", bits, got, err, want)
		}
	}
	for _, none := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, err := canonicalInputs(none); err == nil {
			t.Errorf("%v: %s", none, got)
		}
	}
}

// Inputs that differ have different hashes, and how they are spelled is nothing to
// it.
func TestHashInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "inputs")
		text, err := json.MarshalIndent(inputs, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		a, errA := HashInputs(inputs)
		b, errB := HashInputs(json.RawMessage(text))
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("%v and %v, %v and %v", a, b, errA, errB)
		}
		name := rapid.String().Draw(t, "name")
		inputs[name]++
		if c, err := HashInputs(inputs); err == nil && c == a {
			t.Fatalf("%q: one more, and the hash is the same", name)
		}
	})
	if _, err := HashInputs(strings.Repeat("x", maxInputs)); err == nil {
		t.Error("inputs without bound are accepted")
	}
	if _, err := HashInputs(func() {}); !errors.As(err, new(*json.UnsupportedTypeError)) {
		t.Errorf("a function: %v", err)
	}
	if _, err := HashInputs(json.RawMessage("\"\xff\"")); err == nil {
		t.Error("text that is not Unicode is accepted")
	}
}
