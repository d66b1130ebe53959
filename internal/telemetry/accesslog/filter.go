package accesslog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a filter.
const (
	maxFilter     = 1024 // bytes
	maxConditions = 32
)

// A Filter selects requests. It is immutable.
type Filter struct{ conditions []condition }

// A condition compares a field with a value.
type condition struct {
	field field
	op    string
	text  string   // of a text
	parts []string // of the pattern of ~: texts that occur in this order
	n     int64    // of other fields, as in [value]
}

// operators are the operators of filters; longer ones first.
func operators() []string { return []string{"!=", ">=", "<=", "=", ">", "<", "~"} }

// ParseFilter parses a filter: conditions between spaces, of which all must be true. A condition is a field by either of its
// names, an operator, and a value: a word, or a text in double quotes, in which \ stands before a quote or another \.
//
//	status>=500 route=/shop/ duration>200ms agent~"Chrome/1*Mobile"
//
// Texts have =, != and ~, which finds a part of them; * stands for any characters. Numbers and durations have all but ~;
// a duration is in seconds, or has a unit. A field that a request does not have is the empty text, and is no number. An empty
// filter selects all requests.
func ParseFilter(text string) (*Filter, error) {
	if len(text) > maxFilter {
		return nil, fmt.Errorf("the filter has %d bytes; expected at most %d", len(text), maxFilter)
	}
	f, standard := &Filter{}, standardFields()
	for at := 0; ; {
		for at < len(text) && text[at] == ' ' {
			at++
		}
		if at == len(text) {
			return f, nil
		}
		if len(f.conditions) == maxConditions {
			return nil, filterError(at, "there are more than %d conditions", maxConditions)
		}
		c, end, err := parseCondition(standard, text, at)
		if err != nil {
			return nil, err
		}
		f.conditions, at = append(f.conditions, c), end
	}
}

// filterError is an error at a byte of a filter.
func filterError(at int, format string, args ...any) error {
	return fmt.Errorf("column %d of the filter: %s", at+1, fmt.Sprintf(format, args...))
}

// parseCondition parses the condition at a byte, and returns where it ends.
func parseCondition(standard []field, text string, at int) (c condition, end int, err error) {
	name := text[at:]
	if i := strings.IndexAny(name, "!=<>~ "); i >= 0 {
		name = name[:i]
	}
	if name == "" {
		return c, 0, filterError(at, "a condition begins with the name of a field, such as status>=500 (got %.20q)", text[at:])
	}
	if c.field, err = fieldOf(standard, name); err != nil {
		return c, 0, filterError(at, "the log %v", err)
	}
	if c.field.kind == isTime {
		return c, 0, filterError(at, "time cannot be compared: only requests from now on are followed")
	}
	opAt := at + len(name)
	i := slices.IndexFunc(operators(), func(op string) bool { return strings.HasPrefix(text[opAt:], op) })
	if i < 0 {
		return c, 0, filterError(opAt, "expected one of %s right after %s", strings.Join(operators(), " "), name)
	}
	c.op = operators()[i]
	valueAt := opAt + len(c.op)
	word, end, err := parseWord(text, valueAt)
	if err != nil {
		return c, 0, err
	}
	if problem := c.compareWith(word); problem != "" {
		if strings.HasPrefix(problem, "expected a") {
			return c, 0, filterError(valueAt, "%s", problem)
		}
		return c, 0, filterError(opAt, "%s", problem)
	}
	return c, end, nil
}

// parseWord parses the value at a byte, and returns where it ends.
func parseWord(text string, at int) (word string, end int, err error) {
	if at == len(text) || text[at] != '"' {
		end = at + len(text[at:])
		if i := strings.IndexByte(text[at:], ' '); i >= 0 {
			end = at + i
		}
		if end == at {
			return "", 0, filterError(at, `expected a value; "" is the empty text`)
		}
		return text[at:end], end, nil
	}
	var b strings.Builder
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '"' && i+1 < len(text) && text[i+1] != ' ':
			return "", 0, filterError(i+1, "expected a space after the closing quote")
		case text[i] == '"':
			return b.String(), i + 1, nil
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", 0, filterError(at, "the quote is not closed")
}

// compareWith sets the value of a condition. It returns what is wrong with it or with the operator; empty if nothing is.
func (c *condition) compareWith(word string) (problem string) {
	switch {
	case c.field.kind == isText && (c.op == "=" || c.op == "!="):
		c.text = word
		return ""
	case c.field.kind == isText && c.op == "~":
		c.parts = strings.Split(word, "*")
		return ""
	case c.field.kind == isText:
		return fmt.Sprintf("%s is a text, which has the operators = != ~", c.field.short)
	case c.op == "~":
		return fmt.Sprintf("%s is no text, and ~ finds parts of texts", c.field.short)
	}
	var err error
	switch c.field.kind {
	case isNumber:
		if c.n, err = strconv.ParseInt(word, 10, 64); err != nil {
			return fmt.Sprintf("expected a whole number for %s (got %.40q)", c.field.short, word)
		}
	case isSeconds:
		d, err := time.ParseDuration(word)
		if seconds, plain := strconv.ParseFloat(word, 64); plain == nil && seconds >= 0 && seconds < 1e9 {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil || d < 0 {
			return fmt.Sprintf("expected a duration for %s, such as 200ms, or 0.2 for seconds (got %.40q)", c.field.short, word)
		}
		c.n = int64(d)
	case isTrue:
		if c.op != "=" && c.op != "!=" {
			return fmt.Sprintf("%s is true or false, and has the operators = !=", c.field.short)
		}
		if word != "true" && word != "false" {
			return fmt.Sprintf("expected a value true or false for %s (got %.40q)", c.field.short, word)
		}
		if word == "true" {
			c.n = 1
		}
	}
	return ""
}

// selects reports whether all conditions are true of a line.
func (f *Filter) selects(l *line) bool {
	for i := range f.conditions {
		if !f.conditions[i].holds(l) {
			return false
		}
	}
	return true
}

func (c *condition) holds(l *line) bool {
	v := c.field.of(l)
	switch {
	case c.op == "~":
		return hasParts(v.text, c.parts)
	case c.field.kind == isText:
		return (v.text == c.text) == (c.op == "=")
	case c.field.kind == isNumber && v.absent:
		return c.op == "!="
	}
	switch c.op {
	case "=":
		return v.n == c.n
	case "!=":
		return v.n != c.n
	case ">":
		return v.n > c.n
	case ">=":
		return v.n >= c.n
	case "<":
		return v.n < c.n
	}
	return v.n <= c.n
}

// hasParts reports whether a text has all parts, one after the other.
func hasParts(text string, parts []string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}
