package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Types for the tests.
type (
	celsius float32
	colour  uint8
	day     time.Time
	point   struct{ X, Y int }
	upper   string   // encodes itself
	seven   struct{} // encoded by a converter
	node    struct {
		Next  *node
		Nodes []node
		Any   any
	}
)

func (c colour) MarshalText() ([]byte, error) {
	if c > 1 {
		return nil, errors.New("no such colour")
	}
	return []byte([]string{"red", "green"}[c]), nil
}

func (c *colour) UnmarshalText(text []byte) error {
	switch string(text) {
	case "red":
		*c = 0
	case "green":
		*c = 1
	default:
		return errors.New("no such colour")
	}
	return nil
}

func (u *upper) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return s(strings.ToUpper(string(*u))), nil
}

func (u *upper) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	text, ok := av.(*types.AttributeValueMemberS)
	if !ok {
		return errors.New("not S")
	}
	*u = upper(strings.ToLower(text.Value))
	return nil
}

func sevenRegistry() *model.Registry {
	return model.NewRegistry(model.Converter{
		Type:   reflect.TypeFor[seven](),
		Encode: func(reflect.Value) (types.AttributeValue, error) { return n("7"), nil },
		Decode: func(av types.AttributeValue, _ reflect.Value) error {
			if number, ok := av.(*types.AttributeValueMemberN); !ok || number.Value != "7" {
				return errors.New("not 7")
			}
			return nil
		},
	})
}

func b(v string) types.AttributeValue { return &types.AttributeValueMemberB{Value: []byte(v)} }

func null() types.AttributeValue { return &types.AttributeValueMemberNULL{Value: true} }

func boolean(v bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: v} }

func bigInt(text string) *big.Int {
	i, _ := new(big.Int).SetString(text, 10)
	return i
}

// TestValues round-trips values whose encoding differs from attributevalue's or
// is worth showing.
func TestValues(t *testing.T) {
	at := time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		value any
		want  types.AttributeValue
	}{
		"string":             {"a", s("a")},
		"empty string":       {"", s("")},
		"named float":        {celsius(36.6), n("36.6")},
		"least int":          {int64(math.MinInt64), n("-9223372036854775808")},
		"greatest uint":      {uint64(math.MaxUint64), n("18446744073709551615")},
		"greatest float32":   {float32(math.MaxFloat32), n("340282350000000000000000000000000000000")},
		"large float":        {1e21, n("1000000000000000000000")},
		"small float":        {1.5e-7, n("0.00000015")},
		"bytes":              {[]byte{1, 2}, b("\x01\x02")},
		"no bytes":           {[]byte{}, b("")},
		"nil bytes":          {[]byte(nil), null()},
		"array of bytes":     {[2]byte{1, 2}, b("\x01\x02")},
		"list of bytes":      {[][]byte{{1}, {1}, {}}, list(b("\x01"), b("\x01"), b(""))},
		"nil slice":          {[]string(nil), null()},
		"empty slice":        {[]string{}, list()},
		"array":              {[2]int{1, 2}, list(n("1"), n("2"))},
		"nil map":            {map[string]int(nil), null()},
		"empty map":          {map[string]int{}, mapOf()},
		"map of ints":        {map[int8]bool{-1: true}, mapOf("-1", boolean(true))},
		"map of durations":   {map[time.Duration]int{time.Second: 1}, mapOf("1000000000", n("1"))},
		"map of texts":       {map[colour]int{1: 1}, mapOf("green", n("1"))},
		"map of bools":       {map[bool]string{false: "no"}, mapOf("false", s("no"))},
		"map of floats":      {map[float64]string{1e30: "much"}, mapOf("1e+30", s("much"))},
		"struct":             {point{1, 2}, mapOf("x", n("1"), "y", n("2"))},
		"nested":             {[]*point{{1, 2}, nil}, list(mapOf("x", n("1"), "y", n("2")), null())},
		"time":               {at.Add(time.Nanosecond), s("2026-11-21T17:00:00.000000001Z")},
		"named time":         {day(at), s("2026-11-21T17:00:00Z")},
		"duration":           {time.Minute, n("60000000000")},
		"text":               {colour(1), s("green")},
		"texts":              {[]colour{0, 1}, list(s("red"), s("green"))},
		"address":            {netip.MustParseAddr("::1"), s("::1")},
		"itself":             {upper("a"), s("A")},
		"converted":          {[]seven{{}}, list(n("7"))},
		"big int":            {bigInt("-12345678901234567890123456789012345678"), n("-12345678901234567890123456789012345678")},
		"big int with zeros": {bigInt("1" + strings.Repeat("0", 125)), n("1" + strings.Repeat("0", 125))},
		"big rat":            {big.NewRat(-3, 8), n("-0.375")},
		"number":             {model.Number("0.1"), n("0.1")},
		"number of the SDK":  {attributevalue.Number("1e20"), n("1e20")},
		"number of JSON":     {json.Number("-5"), n("-5")},
		"any":                {map[string]any{"a": []any{"x", model.Number("1.5"), true, nil, map[string]any{}}}, mapOf("a", list(s("x"), n("1.5"), boolean(true), null(), mapOf()))},
		"attribute value":    {[]types.AttributeValue{s("a"), null()}, list(s("a"), null())},
		"contains its type":  {node{Next: &node{}}, mapOf("next", mapOf("next", null(), "nodes", null(), "any", null()), "nodes", null(), "any", null())},
		"pointers":           {[]**int{new(new(5))}, list(n("5"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := sevenRegistry()
			got, err := registry.EncodeValue(test.value)
			if err != nil {
				t.Fatal(err)
			}
			equalItems(t, got, test.want)
			back := reflect.New(reflect.TypeOf(test.value))
			if err := registry.DecodeValue(got, back.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back.Elem().Interface(), test.value) {
				t.Errorf("read back %#v, want %#v", back.Elem().Interface(), test.value)
			}
		})
	}
}

func TestBigFloats(t *testing.T) {
	registry := model.NewRegistry()
	av, err := registry.EncodeValue(big.NewFloat(-2.375))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, av, n("-2.375"))
	var back *big.Float
	if err := registry.DecodeValue(av, &back); err != nil || back.Cmp(big.NewFloat(-2.375)) != 0 {
		t.Errorf("read back %v, %v", back, err)
	}
}

// TestValuesThatCannotBeStored checks the texts of errors.
func TestValuesThatCannotBeStored(t *testing.T) {
	type row struct {
		Inner struct{ Values []any }
	}
	var cycle node
	cycle.Next = &cycle
	var pointer any
	pointer = &pointer
	deep := any("bottom")
	for range 33 {
		deep = []any{deep}
	}
	nested := row{}
	nested.Inner.Values = []any{1, math.NaN()}
	tests := map[string]struct {
		value any
		words string
	}{
		"NaN":                   {math.NaN(), "no NaN"},
		"infinity":              {float32(math.Inf(1)), "no infinities"},
		"too large":             {1e126, "9.99E+125"},
		"too small":             {-1e-131, "1E-130"},
		"39 digits":             {bigInt("123456789012345678901234567890123456789"), "at most 38 significant digits"},
		"huge":                  {new(big.Int).Lsh(big.NewInt(1), 100_000), "at most 38 significant digits"},
		"endless":               {big.NewRat(1, 3), "infinitely"},
		"float of many digits":  {big.NewFloat(0.1), "at most 38 significant digits"},
		"huge float":            {new(big.Float).SetMantExp(big.NewFloat(1), 1<<30), "9.99E+125"},
		"infinite big float":    {new(big.Float).SetInf(false), "infinities"},
		"not a number":          {model.Number("0x10"), `"0x10"`},
		"infinite number":       {json.Number("Infinity"), `"Infinity"`},
		"UTF-8":                 {"\xff", "UTF-8"},
		"UTF-8 of a name":       {map[string]int{"\xff": 1}, "UTF-8"},
		"UTF-8 of a string map": {map[string]string{"a": "\xff"}, "attribute a"},
		"empty name":            {map[string]int{"": 1}, "empty"},
		"cycle":                 {&cycle, "contain itself"},
		"pointer to itself":     {pointer, "point to itself"},
		"too deep":              {deep, "32 levels"},
		"path":                  {nested, "attribute inner.values[1] ("},
		"no text":               {colour(2), "no such colour"},
		"year":                  {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "9999"},
		"channel":               {make(chan int), `theorydb:"-"`},
		"function in a list":    {[]any{func() {}}, "[0]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			av, err := model.NewRegistry().EncodeValue(test.value)
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("encoded %v, %v, want an error with %q", av, err, test.words)
			}
		})
	}
}

// TestForeignItems decodes items of other writers.
func TestForeignItems(t *testing.T) {
	at := time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)
	ss := &types.AttributeValueMemberSS{Value: []string{"a", "b"}}
	ns := &types.AttributeValueMemberNS{Value: []string{"1", "2.0"}}
	bs := &types.AttributeValueMemberBS{Value: [][]byte{{1}}}
	tests := map[string]struct {
		av   types.AttributeValue
		want any
	}{
		"integral number":       {n("5.0"), 5},
		"number with exponent":  {n("1e2"), int8(100)},
		"unsigned":              {n("1.2E1"), uint(12)},
		"float of an integer":   {n("12"), 12.0},
		"time in another zone":  {s("2026-11-21T18:00:00+01:00"), at},
		"time in epoch seconds": {n("1795280400"), at},
		"set as slice":          {ss, []string{"a", "b"}},
		"set of numbers":        {ns, []int{1, 2}},
		"set of binaries":       {bs, [][]byte{{1}}},
		"set as array":          {ss, [3]string{"a", "b", ""}},
		"set as any":            {ss, any([]string{"a", "b"})},
		"numbers as any":        {ns, any([]model.Number{"1", "2.0"})},
		"binaries as any":       {bs, any([][]byte{{1}})},
		"number as any":         {n("1.5"), any(model.Number("1.5"))},
		"large number as any":   {n("9007199254740993"), any(model.Number("9007199254740993"))},
		"long number as any":    {n("12345678901234567890123456789012345678"), any(model.Number("12345678901234567890123456789012345678"))},
		"numbers within any": {
			list(n("9007199254740993"), mapOf("n", n("0.1000000000000000000001"))),
			any([]any{model.Number("9007199254740993"), map[string]any{"n": model.Number("0.1000000000000000000001")}}),
		},
		"binary as any":          {b("x"), any([]byte("x"))},
		"NULL as int":            {null(), 0},
		"NULL as struct":         {null(), point{}},
		"NULL as any":            {null(), any(nil)},
		"NULL as time":           {null(), time.Time{}},
		"NULL as bytes":          {null(), []byte(nil)},
		"elements that are NULL": {list(null(), s("a")), []string{"", "a"}},
		"unknown attributes":     {mapOf("x", n("1"), "z", list()), point{X: 1}},
		"shorter list":           {list(n("1")), [2]int{1, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dest := reflect.New(reflect.TypeFor[any]())
			if reflect.TypeOf(test.want) != nil && !strings.HasSuffix(name, " any") {
				dest = reflect.New(reflect.TypeOf(test.want))
			}
			if err := model.NewRegistry().DecodeValue(test.av, dest.Interface()); err != nil {
				t.Fatal(err)
			}
			if got := dest.Elem().Interface(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("decoded %#v, want %#v", got, test.want)
			}
		})
	}
}

// TestDecodeErrors decodes values that do not fit.
func TestDecodeErrors(t *testing.T) {
	deep := s("bottom")
	for range 40 {
		deep = list(deep)
	}
	tests := map[string]struct {
		av    types.AttributeValue
		dest  any
		words string
	}{
		"S into int":              {s("5"), new(int), "found S, want N for int"},
		"N into string":           {n("5"), new(string), "found N, want S for string"},
		"BOOL into int":           {boolean(true), new(int), "found BOOL"},
		"N into bool":             {n("1"), new(bool), "want BOOL"},
		"M into list":             {mapOf(), new([]int), "want L"},
		"L into map":              {list(), new(map[string]int), "want M"},
		"S into bytes":            {s("x"), new([]byte), "want B"},
		"S into struct":           {s("x"), new(point), "want M"},
		"fraction":                {n("1.5"), new(int), "not an integer"},
		"overflow":                {n("128"), new(int8), "out of the range"},
		"overflow of 64 bits":     {n("1e19"), new(int64), "out of the range"},
		"negative":                {n("-1"), new(uint), "out of the range"},
		"overflow of a float":     {n("1e39"), new(float32), "out of the range"},
		"hexadecimal":             {n("0x10"), new(float64), "not a number"},
		"infinite":                {n("Inf"), new(float64), "not a number"},
		"endless exponent":        {n("1e999999999"), new(int), "not a number"},
		"endless number":          {n(strings.Repeat("1", 1000)), new(model.Number), "not a number"},
		"milliseconds":            {n("1795280400000"), new(time.Time), "milliseconds"},
		"no time":                 {s("yesterday"), new(time.Time), `S "yesterday"`},
		"BOOL into time":          {boolean(true), new(time.Time), "found BOOL"},
		"bytes of another length": {b("abc"), new([2]byte), "length 3, want 2"},
		"longer list":             {list(n("1"), n("2")), new([1]int), "length 2, want at most 1"},
		"too deep":                {deep, new(any), "32 levels"},
		"path":                    {mapOf("nodes", list(mapOf("next", mapOf("nodes", s("x"))))), new(node), "attribute nodes[0].next.nodes (field model_test.node.Nodes): found S, want L for []model_test.node"},
		"path in any":             {mapOf("any", list(mapOf("a", n("x")))), new(node), "any[0].a"},
		"key":                     {mapOf("x", n("1")), new(map[int]int), `name "x"`},
		"text":                    {s("blue"), new(colour), "no such colour"},
		"itself":                  {n("1"), new(upper), "not S"},
		"nil":                     {nil, new(int), "found <nil>"},
		"interface with methods":  {s("x"), new(fmt.Stringer), "fmt.Stringer"},
		"attribute value":         {s("x"), new(*types.AttributeValueMemberN), "found S"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := model.NewRegistry().DecodeValue(test.av, test.dest)
			if _, ok := errors.AsType[*model.DecodeError](err); !ok {
				t.Fatalf("got error %v, want a *DecodeError", err)
			}
			if !strings.Contains(err.Error(), test.words) {
				t.Errorf("got error %q, want %q in it", err, test.words)
			}
			if !reflect.ValueOf(test.dest).Elem().IsZero() {
				t.Errorf("the destination is %v after an error", reflect.ValueOf(test.dest).Elem())
			}
		})
	}
}

// document has a field for each tag that changes the encoding.
type document struct {
	PK      string               `theorydb:"pk"`
	Names   []string             `theorydb:"set"`
	Bytes   [][]byte             `theorydb:"set"`
	Numbers map[float64]struct{} `theorydb:"set"`
	Flags   map[string]bool      `theorydb:"set"`
	Exact   []model.Number       `theorydb:"set"`
	Colours []colour             `theorydb:"set"`
	JSON    *point               `theorydb:"json"`
	Any     any                  `theorydb:"json,omitempty"`
	Text    string               `theorydb:"binary"`
	Link    *url.URL             `theorydb:"binary,omitempty"`
	At      time.Time            `theorydb:"omitempty"`
	Expires *time.Time           `theorydb:"ttl"`
	Zone    netip.Addr           `theorydb:"omitempty"`
}

func TestTagsThatChangeTheEncoding(t *testing.T) {
	m := mustModel[document](t)
	expires := time.Unix(1_800_000_000, 0).UTC()
	value := document{
		PK: "a", Names: []string{"y", "x", "y"}, Bytes: [][]byte{{2}, {1}, {2}},
		Numbers: map[float64]struct{}{2: {}, 10: {}, 0.5: {}}, Flags: map[string]bool{"no": false, "b": true, "a": true},
		Exact: []model.Number{"1.0", "1", "1e1"}, Colours: []colour{1},
		JSON: &point{1, 2}, Any: "x", Text: "\xff", Link: &url.URL{Scheme: "https", Host: "example.org"}, Expires: &expires,
	}
	item, err := m.Encode(reflect.ValueOf(value))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{
		"pk":      s("a"),
		"names":   &types.AttributeValueMemberSS{Value: []string{"y", "x"}},
		"bytes":   &types.AttributeValueMemberBS{Value: [][]byte{{2}, {1}}},
		"numbers": &types.AttributeValueMemberNS{Value: []string{"0.5", "10", "2"}},
		"flags":   &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"exact":   &types.AttributeValueMemberNS{Value: []string{"1", "10"}},
		"colours": &types.AttributeValueMemberSS{Value: []string{"green"}},
		"json":    s(`{"X":1,"Y":2}`), "any": s(`"x"`), "text": b("\xff"), "link": b("https://example.org"),
		"expires": n("1800000000"),
	})
	var got document
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	value.Names, value.Bytes, value.Exact = []string{"y", "x"}, [][]byte{{2}, {1}}, []model.Number{"1", "10"}
	delete(value.Flags, "no")
	if !reflect.DeepEqual(got, value) {
		t.Errorf("decoded %+v, want %+v", got, value)
	}
}

func TestEmptySetsAndZeroValuesAreOmitted(t *testing.T) {
	m := mustModel[document](t)
	item, err := m.Encode(reflect.ValueOf(document{PK: "a", Names: []string{}, Flags: map[string]bool{"no": false}}))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{"pk": s("a"), "json": null(), "text": b(""), "expires": null()})
}

func TestDecodeListsAsSetsAndSetsAsLists(t *testing.T) {
	m := mustModel[document](t)
	var got document
	err := m.Decode(model.Item{
		"names": list(s("a")), "bytes": list(b("x")), "numbers": list(n("1")), "flags": list(s("a")), "exact": null(),
	}, reflect.ValueOf(&got).Elem())
	if err != nil {
		t.Fatal(err)
	}
	want := document{Names: []string{"a"}, Bytes: [][]byte{[]byte("x")}, Numbers: map[float64]struct{}{1: {}}, Flags: map[string]bool{"a": true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	for name, av := range map[string]types.AttributeValue{
		"names": list(n("1")), "numbers": &types.AttributeValueMemberSS{Value: []string{"a"}}, "flags": s("a"), "bytes": mapOf(),
	} {
		if err := m.Decode(model.Item{name: av}, reflect.ValueOf(&got).Elem()); err == nil {
			t.Errorf("%s was decoded from %v", name, av)
		}
	}
}

func TestSetsOfManyMembers(t *testing.T) {
	m := mustModel[document](t)
	var value document
	value.PK = "a"
	for i := range 100 {
		value.Names = append(value.Names, fmt.Sprint(i%50))
		value.Bytes = append(value.Bytes, []byte{byte(i % 50)})
	}
	item, err := m.Encode(reflect.ValueOf(value))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item["names"], &types.AttributeValueMemberSS{Value: value.Names[:50]})
	equalItems(t, item["bytes"], &types.AttributeValueMemberBS{Value: value.Bytes[:50]})
}

func TestDecodedValuesShareNoMemory(t *testing.T) {
	type row struct {
		PK    string `theorydb:"pk"`
		Bytes []byte
		Any   any
		Value types.AttributeValue
		List  []string
		Set   [][]byte `theorydb:"set"`
	}
	m := mustModel[row](t)
	bytes, any, value, set := []byte("a"), []byte("a"), []byte("a"), []byte("a")
	binary := func(v []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: v} }
	item := model.Item{
		"pk": s("a"), "bytes": binary(bytes), "any": list(binary(any)), "value": mapOf("x", binary(value)),
		"set": &types.AttributeValueMemberBS{Value: [][]byte{set}},
	}
	var got row
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	before, err := m.Encode(reflect.ValueOf(got))
	if err != nil {
		t.Fatal(err)
	}
	bytes[0], any[0], value[0], set[0] = 'b', 'b', 'b', 'b'
	after, err := m.Encode(reflect.ValueOf(got))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, after, before)

	got.Bytes[0] = 'c'
	if string(after["bytes"].(*types.AttributeValueMemberB).Value) != "a" {
		t.Error("the item shares memory with the struct")
	}
}

// moment has another zero value than its type.
type moment struct{ Seconds int }

func (m *moment) IsZero() bool { return m.Seconds == -1 }

func TestEmptyFunc(t *testing.T) {
	type row struct {
		PK     string         `theorydb:"pk"`
		Bool   bool           `theorydb:"omitempty"`
		Float  float64        `theorydb:"omitempty"`
		Slice  []int          `theorydb:"omitempty"`
		Map    map[string]int `theorydb:"omitempty"`
		Array  [2]int         `theorydb:"omitempty"`
		Struct point          `theorydb:"omitempty"`
		Ptr    *int           `theorydb:"omitempty"`
		Any    any            `theorydb:"omitempty"`
		At     time.Time      `theorydb:"omitempty"`
		Day    day            `theorydb:"omitempty"`
		Moment moment         `theorydb:"omitempty"`
		Addr   netip.Addr     `theorydb:"omitempty"`
	}
	m := mustModel[row](t)
	empty := row{PK: "a", Slice: []int{}, Map: map[string]int{}, Moment: moment{-1}, At: time.Time{}.In(time.FixedZone("CET", 3600))}
	for name, value := range map[string]any{"empty": empty, "by pointer": &empty} {
		item, err := m.Encode(reflect.Indirect(reflect.ValueOf(value)))
		if err != nil {
			t.Fatal(err)
		}
		if len(item) != 1 {
			t.Errorf("%s: the item is %v, want only the key", name, item)
		}
	}
	full := row{
		"a", true, 1,
		[]int{0},
		map[string]int{"": 0},
		[2]int{0, 1},
		point{1, 0},
		new(0), 0,
		time.Unix(0, 0), day(time.Unix(0, 0)),
		moment{},
		netip.IPv4Unspecified(),
	}
	full.Map = map[string]int{"a": 0}
	item, err := m.Encode(reflect.ValueOf(full))
	if err != nil {
		t.Fatal(err)
	}
	if len(item) != reflect.TypeFor[row]().NumField() {
		t.Errorf("the item is %v, want all fields", item)
	}
}

func TestAttributeValuesAreCopied(t *testing.T) {
	type row struct {
		All  types.AttributeValue
		Only *types.AttributeValueMemberS
	}
	all := list(
		s("a"), n("1"), b("x"), boolean(true), null(), mapOf("a", list()),
		&types.AttributeValueMemberSS{Value: []string{"a"}}, &types.AttributeValueMemberNS{Value: []string{"1"}},
		&types.AttributeValueMemberBS{Value: [][]byte{[]byte("x")}},
	)
	registry := model.NewRegistry()
	var got row
	if err := registry.DecodeValue(mapOf("all", all, "only", s("b")), &got); err != nil {
		t.Fatal(err)
	}
	equalItems(t, got.All, all)
	equalItems(t, got.Only, s("b"))
	if got.All == all {
		t.Error("the value was not copied")
	}
	if err := registry.DecodeValue(mapOf("all", null(), "only", null()), &got); err != nil {
		t.Fatal(err)
	}
	equalItems(t, got, row{All: null()})
	av, err := registry.EncodeValue(row{Only: (*types.AttributeValueMemberS)(nil)})
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, av, mapOf("all", null(), "only", null()))
}

func TestConvertersThatFail(t *testing.T) {
	registry := sevenRegistry()
	var dest []seven
	err := registry.DecodeValue(list(n("7"), n("8")), &dest)
	if err == nil || !strings.Contains(err.Error(), "[1]: found N \"8\"") || !strings.Contains(err.Error(), "not 7") {
		t.Errorf("the error is %v", err)
	}
	cause := errors.New("no")
	broken := model.NewRegistry(
		model.Converter{Type: reflect.TypeFor[seven](), Encode: func(reflect.Value) (types.AttributeValue, error) { return nil, nil }},
		model.Converter{Type: reflect.TypeFor[upper](), Encode: func(reflect.Value) (types.AttributeValue, error) { return nil, cause }},
	)
	if av, err := broken.EncodeValue(seven{}); err == nil || !strings.Contains(err.Error(), "returned nil") {
		t.Errorf("a converter that returns nil: %v, %v", av, err)
	}
	if av, err := broken.EncodeValue([]upper{"a"}); !errors.Is(err, cause) {
		t.Errorf("a converter that fails: %v, %v", av, err)
	}
}

func TestKeysWithMarshalers(t *testing.T) {
	type row struct {
		PK upper `theorydb:"pk"`
		SK seven `theorydb:"sk"`
	}
	m, err := sevenRegistry().Model(reflect.TypeFor[row]())
	if err != nil {
		t.Fatal(err)
	}
	if m.Hash.Key != "S" || m.Range.Key != "N" {
		t.Errorf("the keys are of the types %s and %s, want S and N", m.Hash.Key, m.Range.Key)
	}
}

func TestNumber(t *testing.T) {
	if f, err := model.Number("1.5e1").Float64(); f != 15 || err != nil {
		t.Errorf("the float is %v, %v", f, err)
	}
	if i, err := model.Number("1.5e1").Int64(); i != 15 || err != nil {
		t.Errorf("the integer is %v, %v", i, err)
	}
	if i, err := model.Number("1.5").Int64(); err == nil {
		t.Errorf("the integer is %v", i)
	}
	av, err := model.NewRegistry().EncodeValue(model.Number(""))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, av, n("0"))
}

func TestErrorsWrapTheirReason(t *testing.T) {
	var syntax *json.SyntaxError
	var got document
	err := mustModel[document](t).Decode(model.Item{"json": s("{")}, reflect.ValueOf(&got).Elem())
	if !errors.As(err, &syntax) {
		t.Errorf("got error %v, want it to wrap the error of encoding/json", err)
	}
	var unsupported *json.UnsupportedValueError
	_, err = mustModel[document](t).Encode(reflect.ValueOf(document{PK: "a", Any: math.NaN()}))
	if !errors.As(err, &unsupported) {
		t.Errorf("got error %v, want it to wrap the error of encoding/json", err)
	}
}
