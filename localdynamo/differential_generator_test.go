package localdynamo_test

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// generator generates requests. They are mostly valid, and use few values, so that
// requests find the items of earlier ones. The first choice is always the simplest,
// because rapid shrinks to it.
type generator struct {
	*rapid.T
	table  *table
	tokens string // prefix of this round's request tokens
	issued *int   // number of tokens so far
}

// with returns the same generator for use inside another rapid.Custom.
func (g *generator) with(t *rapid.T) *generator {
	inner := *g
	inner.T = t
	return &inner
}

// chance is true in about percent of 100 cases.
func (g *generator) chance(percent int) bool {
	return rapid.IntRange(0, 99).Draw(g.T, "chance") >= 100-percent
}

// pick draws a number from 0 to n-1.
func (g *generator) pick(n int) int { return rapid.IntRange(0, n-1).Draw(g.T, "pick") }

func (g *generator) text(of ...string) string { return rapid.SampledFrom(of).Draw(g.T, "text") }

// oneOf draws an element of a list.
func oneOf[T any](g *generator, of ...T) T { return rapid.SampledFrom(of).Draw(g.T, "one") }

// usual is the usual type of each attribute, so that expressions mostly find the
// types that they need. Some names are reserved words on purpose.
var usual = map[string]string{
	"a": "N", "b": "S", "c": "L", "d": "M", "e": "SS", "f": "B", "g": "NS", "i": "BS", "h": "N", "count": "N", "ttl": "any", "zz": "any",
}

var attributeNames = []string{"a", "b", "c", "d", "e", "f", "g", "i", "h", "count", "ttl", "zz"}

// item generates an item with one of a few keys.
func (g *generator) item() item {
	it := g.key()
	for _, name := range attributeNames[:len(attributeNames)-1] {
		if g.pick(3) == 2 {
			it[name] = g.valueFor(name)
		}
	}
	return it
}

// key generates a primary key of the table, rarely an invalid one.
func (g *generator) key() item {
	key := item{}
	for _, a := range g.table.keys() {
		key[a.name] = g.keyValue(a)
	}
	if g.chance(3) {
		g.spoilKey(key)
	}
	return key
}

// keyValue draws from few values, some of them adjacent in key order.
func (g *generator) keyValue(a keyAttribute) types.AttributeValue {
	few := a.role == types.KeyTypeHash
	switch a.kind {
	case types.ScalarAttributeTypeN:
		if few {
			return num(g.text("1", "2", "1.0", "-1"))
		}
		return num(g.text("1", "2", "10", "0", "-1", "-10", "1.5", "-1.5", "0.001", "1e2", "100", "99999999999999999999999999999999999999", "-0", "1E-130", "9.99E125"))
	case types.ScalarAttributeTypeB:
		if few {
			return bin(g.text("a", "b"))
		}
		return bin(g.text("a", "b", "ab", "a\x00", "a\x00b", "\xff", "\x00", "\xff\xff", "aa", "\x01"))
	}
	if few {
		return str(g.text("p", "q"))
	}
	return str(g.text("a", "b", "ab", "aa", "a\x00", "B", "é", "\U0001F600", "\uffff", "10", "2", "a\x01"))
}

// bin returns the bytes of a string as a binary.
func bin(s string) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: []byte(s)}
}

// spoilKey removes, adds or mistypes an attribute of a key.
func (g *generator) spoilKey(key item) {
	name := g.table.keys()[g.pick(len(g.table.keys()))].name
	switch g.pick(5) {
	case 0:
		delete(key, name)
	case 1:
		key["other"] = str("x")
	case 2:
		key[name] = g.scalar()
	case 3:
		key[name] = str("")
	case 4:
		key[name] = g.malformed()
	}
}

// valueFor generates a value of an attribute's usual type, or of any type.
func (g *generator) valueFor(name string) types.AttributeValue {
	kind, odd := usual[name], 15
	if g.table.isIndexKey(name) {
		odd = 2 // lower, because another type makes the item invalid
	}
	if kind == "any" || kind == "" || g.chance(odd) {
		return g.value(2)
	}
	return g.ofKind(kind, 2)
}

var kinds = []string{"N", "S", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"}

// value generates a value of any type, nested at most depth levels.
func (g *generator) value(depth int) types.AttributeValue {
	if g.chance(2) {
		return g.malformed()
	}
	if depth == 0 {
		return g.scalar()
	}
	return g.ofKind(g.text(kinds...), depth)
}

func (g *generator) scalar() types.AttributeValue { return g.ofKind(g.text(kinds[:5]...), 0) }

func (g *generator) ofKind(kind string, depth int) types.AttributeValue {
	switch kind {
	case "N":
		return num(g.number())
	case "S":
		return str(g.text("a", "", "b", "ab", "abc", "N", "S", "SS", "é", "\U0001F600"))
	case "B":
		return bin(g.text("a", "", "ab", "\x00", "\xff"))
	case "BOOL":
		return &types.AttributeValueMemberBOOL{Value: g.pick(2) == 1}
	case "NULL":
		return &types.AttributeValueMemberNULL{Value: true}
	case "L":
		members := make([]types.AttributeValue, g.pick(4))
		for i := range members {
			members[i] = g.value(depth - 1)
		}
		return &types.AttributeValueMemberL{Value: members}
	case "M":
		members := item{}
		for range g.pick(4) {
			members[g.text("x", "y", "z")] = g.value(depth - 1)
		}
		return &types.AttributeValueMemberM{Value: members}
	}
	return g.set(kind)
}

func (g *generator) set(kind string) types.AttributeValue {
	texts := func(of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 3, rapid.ID).Draw(g.T, "set")
	}
	switch kind {
	case "SS":
		return &types.AttributeValueMemberSS{Value: texts("a", "b", "ab", "", "é")}
	case "NS":
		return &types.AttributeValueMemberNS{Value: texts("1", "2", "3", "-1", "10", "0.5")}
	}
	var members [][]byte
	for _, s := range texts("a", "b", "ab", "\x00") {
		members = append(members, []byte(s))
	}
	return &types.AttributeValueMemberBS{Value: members}
}

// number generates the text of a number. The long ones are at the limits of
// precision and range.
func (g *generator) number() string {
	if !g.chance(20) {
		return g.text("1", "0", "2", "3", "-1", "10", "100", "0.5", "-0.5", "1.0", "1e1", "-0", "007", "12345.678")
	}
	return g.text("99999999999999999999999999999999999999", "0.99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
		"1e37", "1E-10", "1e-130", "-1e-130", "9.9999999999999999999999999999999999999e125", "1e125", "1e38", "12345678901234567890123456789012345678")
}

// malformed generates an invalid value.
func (g *generator) malformed() types.AttributeValue {
	return oneOf[types.AttributeValue](g,
		num(""), num("x"), num("1e126"), num("1e-131"), num("123456789012345678901234567890123456789"), num("1e"), num(" 1"), num("NaN"),
		&types.AttributeValueMemberSS{Value: []string{}},
		&types.AttributeValueMemberNS{Value: []string{}},
		&types.AttributeValueMemberBS{Value: [][]byte{}},
		&types.AttributeValueMemberSS{Value: []string{"a", "a"}},
		&types.AttributeValueMemberNS{Value: []string{"1", "1.0"}},
		&types.AttributeValueMemberNS{Value: []string{"1", "1"}},
		&types.AttributeValueMemberNS{Value: []string{"1", "x"}},
		&types.AttributeValueMemberBS{Value: [][]byte{{1}, {1}}},
		&types.AttributeValueMemberNULL{Value: false},
	)
}
