package expression

import "strings"

// Condition is an expression that is true or false. Its zero value demands
// nothing.
type Condition struct {
	text string
	top  connective
}

// connective is what holds the outermost parts of a condition together.
type connective int

const (
	atom connective = iota // one part, or parts in parentheses
	and
	or
)

// IsEmpty reports whether the condition demands nothing.
func (c Condition) IsEmpty() bool { return c.text == "" }

// String returns the expression.
func (c Condition) String() string { return c.text }

// And returns the condition that both hold.
func (c Condition) And(d Condition) Condition {
	if c.IsEmpty() {
		return d
	}
	if d.IsEmpty() {
		return c
	}
	return Condition{text: c.operand() + " AND " + d.operand(), top: and}
}

// Or returns the condition that one of them holds. A condition that demands
// nothing is no alternative.
func (c Condition) Or(d Condition) Condition {
	if c.IsEmpty() {
		return d
	}
	if d.IsEmpty() {
		return c
	}
	return Condition{text: c.text + " OR " + d.text, top: or} // AND binds stronger
}

// operand returns the text as an operand of AND: in parentheses where they are
// needed, as DynamoDB refuses those that are not.
func (c Condition) operand() string {
	if c.top == or {
		return "(" + c.text + ")"
	}
	return c.text
}

// written is a condition in a caller's own words.
func written(text string) Condition {
	text = strings.TrimSpace(text)
	if isEnclosed(text) {
		return Condition{text: text}
	}
	return Condition{text: text, top: or} // whatever it is, parentheses do no harm
}

// isEnclosed reports whether one pair of parentheses encloses the whole text.
func isEnclosed(text string) bool {
	if !strings.HasPrefix(text, "(") {
		return false
	}
	depth := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i == len(text)-1
		}
	}
	return false
}
