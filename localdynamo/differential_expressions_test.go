package localdynamo_test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// scope generates the expressions of one request, and collects the names and
// values that they use.
type scope struct {
	*generator
	names  map[string]string
	values item
}

func (g *generator) scope() *scope { return &scope{generator: g} }

// reserved words need a placeholder.
var reserved = map[string]bool{"count": true, "ttl": true}

// word returns an attribute name, or a placeholder for it.
func (s *scope) word(name string) string {
	if !s.chance(20) && (!reserved[name] || s.chance(3)) {
		return name
	}
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.names["#"+name] = name
	return "#" + name
}

// literal returns a placeholder for a value.
func (s *scope) literal(v types.AttributeValue) string {
	if s.values == nil {
		s.values = item{}
	}
	key := fmt.Sprintf(":v%d", len(s.values))
	s.values[key] = v
	return key
}

// path generates a document path, and returns the usual type of its value.
func (s *scope) path() (text, kind string) {
	name := s.text(attributeNames...)
	kind = usual[name]
	text = s.word(name)
	switch {
	case s.table.isIndexKey(name):
		return text, kind
	case kind == "L" && s.chance(60), s.chance(3):
		return text + fmt.Sprintf("[%d]", s.pick(4)), "any"
	case kind == "M" && s.chance(60), s.chance(3):
		text += "." + s.word(s.text("x", "y", "z"))
		if s.chance(20) {
			text += s.text("[0]", ".x", "[1][0]")
		}
		return text, "any"
	case s.chance(3):
		return s.word(s.text(hashName, rangeName)), "S"
	}
	return text, kind
}

// operandLike generates an operand that usually has this type.
func (s *scope) operandLike(kind string) string {
	switch {
	case s.chance(12):
		text, _ := s.path()
		return text
	case s.chance(8):
		text, _ := s.path()
		return "size(" + text + ")"
	case kind == "any" || s.chance(10):
		return s.literal(s.value(1))
	}
	return s.literal(s.ofKind(kind, 1))
}

// condition generates a condition or a filter.
func (s *scope) condition(depth int) string {
	if depth == 0 || !s.chance(45) {
		return s.comparison()
	}
	switch s.pick(4) {
	case 0:
		return s.condition(depth-1) + s.text(" AND ", " OR ", " and ", " Or ") + s.condition(depth-1)
	case 1:
		return s.text("NOT ", "not ") + s.condition(depth-1)
	case 2:
		return "(" + s.condition(depth-1) + " OR " + s.condition(depth-1) + ") AND " + s.comparison()
	}
	return "NOT (" + s.condition(depth-1) + ")"
}

func (s *scope) comparison() string {
	path, kind := s.path()
	switch s.pick(8) {
	default:
		if s.chance(10) {
			path, kind = "size("+path+")", "N"
		}
		return path + s.text(" = ", " <> ", " < ", "<=", ">", " >= ") + s.operandLike(kind)
	case 1:
		return s.text("attribute_exists(", "attribute_not_exists(", "attribute_exists (") + path + ")"
	case 2:
		return "begins_with(" + path + ", " + s.operandLike(s.text("S", "B")) + ")"
	case 3:
		member := kind
		switch kind {
		case "SS", "NS", "BS":
			member = kind[:1]
		case "L":
			member = "any"
		}
		return "contains(" + path + ", " + s.operandLike(member) + ")"
	case 4:
		return "attribute_type(" + path + ", " + s.typeName() + ")"
	case 5:
		return path + " BETWEEN " + s.operandLike(kind) + " AND " + s.operandLike(kind)
	case 6:
		list := make([]string, 1+s.pick(3))
		for i := range list {
			list[i] = s.operandLike(kind)
		}
		return path + " IN (" + strings.Join(list, ", ") + ")"
	}
}

// typeName generates the second operand of attribute_type, which must be a value.
func (s *scope) typeName() string {
	if s.chance(90) {
		return s.literal(str(s.text(kinds...)))
	}
	return s.literal(s.value(1))
}

// update generates an update expression.
func (s *scope) update() string {
	var sections []string
	order := []string{"SET ", "REMOVE ", "ADD ", "DELETE "}
	first := s.pick(len(order))
	for i := range order {
		verb := order[(first+i)%len(order)]
		if i > 0 && !s.chance(25) {
			continue
		}
		actions := make([]string, 1+s.pick(2))
		for j := range actions {
			actions[j] = s.action(verb)
		}
		sections = append(sections, verb+strings.Join(actions, ", "))
	}
	return strings.Join(sections, " ")
}

func (s *scope) action(verb string) string {
	path, kind := s.path()
	if name, ok := s.indexKey(path); ok {
		return s.actionOnKey(verb, path, name)
	}
	switch verb {
	case "REMOVE ":
		return path
	case "ADD ":
		if kind != "SS" && kind != "NS" && kind != "BS" {
			kind = "N"
		}
		return path + " " + s.literal(s.mostly(kind))
	case "DELETE ":
		if kind != "NS" && kind != "BS" {
			kind = "SS"
		}
		return path + " " + s.literal(s.mostly(kind))
	}
	return path + " = " + s.assigned(kind)
}

// indexKey reports whether a path is an index key, and returns its name.
func (s *scope) indexKey(path string) (string, bool) {
	name := strings.TrimPrefix(path, "#")
	return name, s.table.isIndexKey(name)
}

// actionOnKey generates an action after which the attribute is still a valid
// index key: DynamoDB Local accepts invalid ones.
func (s *scope) actionOnKey(verb, path, name string) string {
	switch {
	case verb == "REMOVE ":
		return path
	case verb == "ADD " && usual[name] == "N":
		return path + " " + s.literal(num("1"))
	case verb == "SET ":
		return path + " = " + s.literal(s.keyValue(keyAttribute{name, types.ScalarAttributeType(usual[name]), types.KeyTypeHash}))
	case verb == "ADD ":
		return "i " + s.literal(s.ofKind("BS", 0))
	}
	return "e " + s.literal(s.ofKind("SS", 0))
}

// mostly generates a value that usually has this type.
func (s *scope) mostly(kind string) types.AttributeValue {
	if s.chance(5) {
		return s.value(1)
	}
	return s.ofKind(kind, 1)
}

// assigned generates the right-hand side of SET.
func (s *scope) assigned(kind string) string {
	if kind == "any" {
		kind = s.text("N", "S", "L")
	}
	switch {
	case s.chance(20):
		return s.source(kind)
	case s.chance(20) && kind == "N":
		return s.summand() + s.text(" + ", " - ", "+", "-") + s.summand()
	case s.chance(50) && kind == "L":
		return "list_append(" + s.source("L") + ", " + s.source("L") + ")"
	case s.chance(8):
		path, _ := s.path()
		return path
	}
	return s.literal(s.mostly(kind))
}

// source generates an operand that usually has this type.
func (s *scope) source(kind string) string {
	from := map[string]string{"N": "a", "S": "b", "L": "c", "M": "d"}[kind]
	switch {
	case s.chance(30) && from != "":
		return "if_not_exists(" + s.word(from) + ", " + s.literal(s.mostly(kind)) + ")"
	case s.chance(30) && from != "":
		return s.word(from)
	}
	return s.literal(s.mostly(kind))
}

func (s *scope) summand() string { return s.source("N") }

// projection generates a list of paths.
func (s *scope) projection() string {
	paths := make([]string, 1+s.pick(3))
	for i := range paths {
		paths[i], _ = s.path()
	}
	return strings.Join(paths, ", ")
}

// keyCondition generates the key condition of a Query.
func (s *scope) keyCondition(keys []keyAttribute) string {
	hash := s.word(keys[0].name) + " = " + s.literal(s.keyValue(keys[0]))
	if s.chance(5) {
		hash = s.literal(s.keyValue(keys[0])) + " = " + s.word(keys[0].name)
	}
	if len(keys) == 1 || !s.chance(60) {
		return hash
	}
	ranged := s.rangeCondition(keys[1])
	if s.chance(10) {
		return ranged + " AND " + hash
	}
	return hash + s.text(" AND ", " and ") + ranged
}

func (s *scope) rangeCondition(a keyAttribute) string {
	name := s.word(a.name)
	low := s.literal(s.keyValue(a))
	switch s.pick(4) {
	case 1:
		return "begins_with(" + name + ", " + low + ")"
	case 2:
		return name + " BETWEEN " + low + " AND " + s.literal(s.keyValue(a))
	case 3:
		return low + s.text(" < ", " >= ") + name
	}
	return name + s.text(" = ", " < ", " <= ", " > ", " >= ") + low
}

// tokens are inserted into expressions to make them invalid.
var tokens = []string{
	"(", ")", ",", ".", "=", "<", "<>", "[", "]", "[0]", " AND ", " OR ", " NOT ", " IN ", " BETWEEN ", "SET ", "REMOVE ", "ADD ", "DELETE ",
	":undefined", "#undefined", ":v0", "a", "size(a)", "+", "-", "@", "1", "'", "\"", "#", ":", "contains", "foo(a)", "\n", "\t", "É", "_x", "a-b", ";",
}

// spoil sometimes makes an expression invalid.
func (s *scope) spoil(text string) *string {
	if !s.chance(5) {
		return &text
	}
	at := s.pick(len(text) + 1)
	switch s.pick(5) {
	case 0:
		text = text[:at] + s.text(tokens...) + text[at:]
	case 1:
		text = text[:at]
	case 2:
		text = text[at:]
	case 3:
		text = "(" + text + ")"
	case 4:
		text = text + " " + text
	}
	return &text
}

// spoilPlaceholders sometimes adds or removes a name or value.
func (s *scope) spoilPlaceholders() {
	if !s.chance(4) {
		return
	}
	switch s.pick(6) {
	case 0:
		s.names = map[string]string{}
	case 1:
		s.values = item{}
	case 2:
		s.add("#unused", "unused")
	case 3:
		s.literal(str("unused"))
	case 4:
		s.add(s.text("bad", "#", "#-", "##a"), "a")
	case 5:
		s.names = nil
	}
}

func (s *scope) add(key, name string) {
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.names[key] = name
}

// updateThatAdds generates an update with an action other than REMOVE and DELETE.
func (s *scope) updateThatAdds() string {
	text := s.update()
	if onlyRemoves(&text) {
		text += " SET made = " + s.literal(num("1"))
	}
	return text
}

// onlyRemoves reports whether a valid update has only REMOVE and DELETE actions.
func onlyRemoves(update *string) bool {
	return update != nil && !addsSomething.MatchString(*update)
}

var addsSomething = regexp.MustCompile(`(?i)\b(SET|ADD)\b`)
