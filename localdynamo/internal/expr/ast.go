package expr

import "strings"

// Kind is which parameter of a request an expression stands in; error
// messages name it.
type Kind string

// The kinds of expression.
const (
	KindCondition    Kind = "ConditionExpression"
	KindFilter       Kind = "FilterExpression"
	KindKeyCondition Kind = "KeyConditionExpression"
	KindProjection   Kind = "ProjectionExpression"
	KindUpdate       Kind = "UpdateExpression"
)

// Parsed is an expression that is right in itself. Names and values stand in
// it as indexes into names and values, which hold each placeholder once.
type Parsed struct {
	kind    Kind
	names   []string
	values  []string
	cond    *cond    // condition, filter, key condition
	paths   []path   // projection
	actions []action // update
}

// path is a document path, such as a.#b[2].c.
type path []step

// step is one element of a path: a name as written, a #name, or an index.
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

// operand is what a condition or an update computes with.
type operand struct {
	kind operandKind
	path path       // operandPath, operandIfNotExists
	ref  int        // operandValue: into Parsed.values
	args []*operand // the functions' and operators' operands
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

// cond is a node of a condition: and, or and not have children, all else args.
type cond struct {
	op       op
	children []*cond
	args     []*operand
}

// op is an operator or function, as it is written.
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

// function is what the grammar knows about a function.
type function struct {
	args      int
	condition bool // stands as a condition
	operand   bool // stands as an operand of a condition
	update    bool // stands as an operand of SET
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

// action is one clause of an update.
type action struct {
	verb verb
	path path
	arg  *operand // SET: what to compute; ADD, DELETE: a value
}

// verb is a section of an update, as it is written.
type verb string

const (
	verbSet    verb = "SET"
	verbRemove verb = "REMOVE"
	verbAdd    verb = "ADD"
	verbDelete verb = "DELETE"
)

// keyword reports whether word is written as keyword, in any case.
func keyword(word, keyword string) bool {
	return len(word) == len(keyword) && strings.EqualFold(word, keyword)
}
