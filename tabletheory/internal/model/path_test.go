package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// order is the model of the paths below.
type order struct {
	ID      string         `theorydb:"pk"`
	Address *orderAddress  `theorydb:"attr:addr"`
	Lines   []orderLine    `theorydb:"attr:lines"`
	Matrix  [][]int        `theorydb:"attr:matrix"`
	Labels  map[string]int `theorydb:"attr:labels"`
	Any     any
	Doc     map[string]int `theorydb:"json"`
	Tags    []string       `theorydb:"set"`
	Marks   map[int]bool   `theorydb:"set"`
	Colour  colour         `theorydb:"attr:colour"`
	Price   model.Number   `theorydb:"attr:price"`
	At      time.Time      `theorydb:"created_at"`
	Expires time.Time      `theorydb:"ttl"`
	Changed int64          `theorydb:"updated_at"`
	Blob    string         `theorydb:"binary"`
	Upper   upper          `theorydb:"attr:upper"`
	Dotted  string         `theorydb:"attr:a.b"`
	Wait    time.Duration  `theorydb:"attr:wait"`
	Raw     types.AttributeValue
}

type (
	orderAddress struct {
		ZIPCode string
		Geo     map[string]float64
	}
	orderLine struct {
		Price int `theorydb:"attr:p"`
		Sizes []string
	}
)

func TestPaths(t *testing.T) {
	m := mustModel[order](t)
	name := func(name string) model.Step { return model.Step{Name: name} }
	at := func(i int) model.Step { return model.Step{Index: i} }
	for path, want := range map[string][]model.Step{
		"ID":                   {name("id")},
		"id":                   {name("id")},
		"Address.ZIPCode":      {name("addr"), name("zipCode")},
		"addr.zipCode":         {name("addr"), name("zipCode")},
		"Address.Geo.Latitude": {name("addr"), name("geo"), name("Latitude")},
		"Lines[2].Price":       {name("lines"), at(2), name("p")},
		"lines[0].sizes[10]":   {name("lines"), at(0), name("sizes"), at(10)},
		"Matrix[1][0]":         {name("matrix"), at(1), at(0)},
		"Labels.Some-Name":     {name("labels"), name("Some-Name")},
		"Any.what[0].ever":     {name("any"), name("what"), at(0), name("ever")},
		"Raw.what":             {name("raw"), name("what")},
		"a.b":                  {name("a.b")},
	} {
		p, err := m.Path(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(want, p.Steps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestWrongPaths(t *testing.T) {
	m := mustModel[order](t)
	for path, words := range map[string]string{
		"":                  "empty name",
		".":                 "empty name",
		"Unknown":           "its fields are ID, Address, Lines",
		"Address.Street":    "its fields are ZIPCode, Geo",
		"Address.":          "empty name",
		"[1]":               "empty name",
		"Lines[":            "brackets",
		"Lines[]":           "brackets",
		"Lines[-1]":         "brackets",
		"Lines[1":           "brackets",
		"Lines[1]x":         "brackets",
		"Lines[1]x[2]":      "brackets",
		"Lines[x]":          "brackets",
		"Lines[9999999999]": "brackets",
		"Lines.Price":       "stored as L, which has no attribute",
		"ID.x":              "stored as S, which has no attribute",
		"ID[0]":             "stored as S, which has no elements",
		"Address[0]":        "stored as M, which has no elements",
		"Doc.x":             "stored as S, which has no attribute",
		"Tags[0]":           "stored as SS, which has no elements",
	} {
		if p, err := m.Path(path); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q is %v, %v, want an error with %q", path, p, err, words)
		}
	}
}

func TestEncodingForAPath(t *testing.T) {
	type name string
	at := time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)
	tests := []struct {
		path  string
		value any
		want  types.AttributeValue
	}{
		{"ID", "a", s("a")},
		{"ID", name("a"), s("a")},
		{"ID", new("a"), s("a")},
		{"ID", nil, null()},
		{"ID", (*string)(nil), null()},
		{"ID", s("a"), s("a")},
		{"ID", at, s("2026-11-21T17:00:00Z")},
		{"Address", orderAddress{ZIPCode: "1"}, mapOf("zipCode", s("1"), "geo", null())},
		{"Address", &orderAddress{ZIPCode: "1"}, mapOf("zipCode", s("1"), "geo", null())},
		{"Address", map[string]any{"zipCode": "1"}, mapOf("zipCode", s("1"))},
		{"Lines[0].Price", 5, n("5")},
		{"Lines[0].Price", int8(5), n("5")},
		{"Lines[0].Price", 5.5, n("5.5")},
		{"Lines[0].Price", model.Number("7"), n("7")},
		{"Lines", []any{1}, list(n("1"))},
		{"Labels.x", uint(1), n("1")},
		{"Any", []string{"x"}, list(s("x"))},
		{"Any.x", at, s("2026-11-21T17:00:00Z")},
		{"Doc", map[string]int{"a": 1}, s(`{"a":1}`)},
		{"Doc", "text", s(`"text"`)},
		{"Tags", []string{"a", "a"}, &types.AttributeValueMemberSS{Value: []string{"a"}}},
		{"Tags", map[name]struct{}{"a": {}}, &types.AttributeValueMemberSS{Value: []string{"a"}}},
		{"Tags", &types.AttributeValueMemberSS{Value: []string{"a"}}, &types.AttributeValueMemberSS{Value: []string{"a"}}},
		{"Marks", []int64{1}, &types.AttributeValueMemberNS{Value: []string{"1"}}},
		{"Colour", colour(1), s("green")},
		{"Colour", "green", s("green")},
		{"Price", "12.50", n("12.50")},
		{"Price", 12, n("12")},
		{"At", at, s("2026-11-21T17:00:00Z")},
		{"At", day(at), s("2026-11-21T17:00:00Z")},
		{"At", "2026", s("2026")},
		{"Expires", at, n("1795280400")},
		{"Expires", 1, n("1")},
		{"Changed", at, n("1795280400")},
		{"Blob", "x", b("x")},
		{"Blob", []byte("x"), b("x")},
		{"Upper", upper("a"), s("A")},
		{"Upper", "a", s("A")},
		{"Wait", time.Second, n("1000000000")},
		{"Raw", 1, n("1")},
	}
	m := mustModel[order](t)
	for _, test := range tests {
		p, err := m.Path(test.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Encode(test.value)
		if err != nil {
			t.Errorf("%s and %#v: %v", test.path, test.value, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, unexported, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s and %#v (-want +got):\n%s", test.path, test.value, diff)
		}
	}
}

func TestEncodingElementsForAPath(t *testing.T) {
	m := mustModel[order](t)
	for _, test := range []struct {
		path  string
		value any
		want  types.AttributeValue
	}{
		{"Tags", "a", s("a")},
		{"Marks", 1, n("1")},
		{"Lines", orderLine{Price: 1}, mapOf("p", n("1"), "sizes", null())},
		{"Matrix[0]", 1, n("1")},
		{"ID", "part", s("part")},
		{"Doc", `"a":`, s(`"a":`)},
		{"Any", 1, n("1")},
		{"Blob", "x", b("x")},
	} {
		p, err := m.Path(test.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.EncodeElement(test.value)
		if err != nil {
			t.Errorf("%s and %#v: %v", test.path, test.value, err)
			continue
		}
		equalItems(t, got, test.want)
	}
}

// TestWrongValuesForAPath checks what the error names.
func TestWrongValuesForAPath(t *testing.T) {
	m := mustModel[order](t)
	for _, test := range []struct {
		path    string
		value   any
		element bool
		words   string
	}{
		{"Lines[0].Price", "5", false, "attribute lines[0].p (field model_test.order.Lines): want N for int, got S from string"},
		{"ID", 5, false, "want S for string, got N from int"},
		{"ID", []byte("x"), false, "got B from"},
		{"Address", "x", false, "want M"},
		{"Tags", "a", false, "a set must be a slice"},
		{"Tags", []int{1}, false, "want SS"},
		{"Tags", []string{}, false, "remove the attribute"},
		{"Tags", 1, true, "want S for string"},
		{"Lines", "x", true, "want M for model_test.orderLine"},
		{"Price", "many", false, `"many"`},
		{"Any", make(chan int), false, "cannot be stored"},
		{"Doc", make(chan int), false, "unsupported type"},
	} {
		p, err := m.Path(test.path)
		if err != nil {
			t.Fatal(err)
		}
		encode := p.Encode
		if test.element {
			encode = p.EncodeElement
		}
		if av, err := encode(test.value); err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s and %#v: %v, %v, want an error with %q", test.path, test.value, av, err, test.words)
		}
	}
}
