package expr

import "strings"

// Kind is the request parameter that holds an expression. Error messages name it.
type Kind string

// The kinds of expression.
const (
	KindCondition    Kind = "ConditionExpression"
	KindFilter       Kind = "FilterExpression"
	KindKeyCondition Kind = "KeyConditionExpression"
	KindProjection   Kind = "ProjectionExpression"
	KindUpdate       Kind = "UpdateExpression"
)

// Parsed is a syntactically valid expression. Its nodes refer to placeholders by
// their indexes in names and values, which hold each placeholder once.
type Parsed struct {
	kind    Kind
	names   []string
	values  []string
	cond    *cond    // condition, filter, key condition
	paths   []path   // projection
	actions []action // update
}

// path is a document path such as a.#b[2].c.
type path []step

// step is an element of a path: a literal name, a #name, or a list index.
type step struct {
	kind  stepKind
	name  string // stepName
	index int    // stepPlaceholder: into Parsed.names; stepIndex: into a list
}

type stepKind uint8

const (
	stepName stepKind = iota
	stepPlaceholder
	stepIndex
)

// operand is an operand of a condition or an update.
type operand struct {
	kind operandKind
	path path       // operandPath, operandIfNotExists
	ref  int        // operandValue: into Parsed.values
	args []*operand // operands of a function or operator
}

type operandKind uint8

const (
	operandPath operandKind = iota
	operandValue
	operandSize        // size(x)
	operandIfNotExists // if_not_exists(path, x)
	operandListAppend  // list_append(x, y)
	operandAdd         // x + y
	operandSubtract    // x - y
)

// cond is a node of a condition tree. AND, OR and NOT have children, all others args.
type cond struct {
	op       op
	children []*cond
	args     []*operand
}

// op is an operator or function as written.
type op string

const (
	opAnd          op = "AND"
	opOr           op = "OR"
	opNot          op = "NOT"
	opEqual        op = "="
	opNotEqual     op = "<>"
	opLess         op = "<"
	opLessEqual    op = "<="
	opGreater      op = ">"
	opGreaterEqual op = ">="
	opBetween      op = "BETWEEN"
	opIn           op = "IN"
	opExists       op = "attribute_exists"
	opNotExists    op = "attribute_not_exists"
	opType         op = "attribute_type"
	opBeginsWith   op = "begins_with"
	opContains     op = "contains"
	opSize         op = "size"
	opIfNotExists  op = "if_not_exists"
	opListAppend   op = "list_append"
)

// function describes a function: its number of arguments and where it may be used.
type function struct {
	args      int
	condition bool // as a condition
	operand   bool // as an operand of a condition
	update    bool // as an operand of SET
}

func lookUpFunction(name op) (function, bool) {
	switch name {
	case opExists, opNotExists:
		return function{args: 1, condition: true}, true
	case opType, opBeginsWith, opContains:
		return function{args: 2, condition: true}, true
	case opSize:
		return function{args: 1, operand: true}, true
	case opIfNotExists, opListAppend:
		return function{args: 2, update: true}, true
	}
	return function{}, false
}

// action is one clause of an update expression.
type action struct {
	verb verb
	path path
	arg  *operand // SET: an operation; ADD, DELETE: a value; REMOVE: nil
}

// verb is the keyword of an update section, in upper case.
type verb string

const (
	verbSet    verb = "SET"
	verbRemove verb = "REMOVE"
	verbAdd    verb = "ADD"
	verbDelete verb = "DELETE"
)

// keyword reports whether word is the given keyword, ignoring case.
func keyword(word, keyword string) bool {
	return len(word) == len(keyword) && strings.EqualFold(word, keyword)
}
