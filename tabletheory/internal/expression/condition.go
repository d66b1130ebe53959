package expression

import "strings"

// Condition is a boolean expression. The zero Condition is empty and always
// holds.
type Condition struct {
	text string
	top  connective
}

// connective is the operator that joins the outermost parts of a condition.
type connective int

const (
	atom connective = iota // one part, or parts in parentheses
	and
	or
)

// IsEmpty reports whether the condition is empty.
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

// Or returns the condition that at least one holds. An empty condition is
// ignored.
func (c Condition) Or(d Condition) Condition {
	if c.IsEmpty() {
		return d
	}
	if d.IsEmpty() {
		return c
	}
	return Condition{text: c.text + " OR " + d.text, top: or} // AND binds more tightly
}

// operand returns the text as an operand of AND. It adds parentheses only where
// they are needed, because DynamoDB refuses redundant ones.
func (c Condition) operand() string {
	if c.top == or {
		return "(" + c.text + ")"
	}
	return c.text
}

// raw returns a condition that the caller wrote.
func raw(text string) Condition {
	text = strings.TrimSpace(text)
	if isEnclosed(text) {
		return Condition{text: text}
	}
	return Condition{text: text, top: or} // it may have an OR
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
