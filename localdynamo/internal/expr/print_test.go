package expr

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// FuzzParsePrinted: printing a parsed expression and parsing it again gives the same
// tree.
func FuzzParsePrinted(f *testing.F) {
	for _, seed := range []string{
		"a = :a AND (b[1].#c <> :b OR NOT attribute_exists(d))", "(a = b AND c = d) AND NOT (e = f OR NOT g < h)", "a BETWEEN :a AND size(b)",
		"size(a.b) IN (:a, :b, c)", "contains(:a, (b))", "SET a = (b) + :a, c = list_append(if_not_exists(d, :a), :b) REMOVE e[0], e[1] ADD f :a DELETE g :b",
		"a, b.c[2], #c", "NOT NOT a = :a", "(size(a)) > (:a)", "SET a=(b-c)",
	} {
		f.Add(seed)
	}
	kinds := []Kind{KindCondition, KindProjection, KindUpdate}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range kinds {
			parsed, err := Parse(kind, text)
			if err != nil {
				continue
			}
			printed := (&printer{parsed}).text()
			if len(printed) > maxText {
				continue // the original has fewer spaces
			}
			again, err := Parse(kind, printed)
			if err != nil {
				t.Fatalf("%q parses, its printed form %q does not: %v", text, printed, err)
			}
			if !reflect.DeepEqual(again, parsed) {
				t.Fatalf("%q and %q parse differently", printed, text)
			}
		}
	})
}

type printer struct{ *Parsed }

func (p *printer) text() string {
	switch p.kind {
	case KindProjection:
		return join(", ", p.paths, p.path)
	case KindUpdate:
		return p.update()
	}
	return p.condition(p.cond)
}

func join[T any](separator string, list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = text(list[i])
	}
	return strings.Join(texts, separator)
}

func (p *printer) update() string {
	var b strings.Builder
	for i, a := range p.actions {
		switch {
		case i == 0:
			b.WriteString(string(a.verb) + " ")
		case a.verb == p.actions[i-1].verb:
			b.WriteString(", ")
		default:
			b.WriteString(" " + string(a.verb) + " ")
		}
		b.WriteString(p.path(a.path))
		switch a.verb {
		case verbSet:
			b.WriteString(" = " + p.operand(a.arg))
		case verbAdd, verbDelete:
			b.WriteString(" " + p.operand(a.arg))
		}
	}
	return b.String()
}

func (p *printer) condition(c *cond) string {
	switch c.op {
	case opAnd, opOr:
		return join(" "+string(c.op)+" ", c.children, p.child)
	case opNot:
		return "NOT " + p.child(c.children[0])
	case opBetween:
		return p.operand(c.args[0]) + " BETWEEN " + p.operand(c.args[1]) + " AND " + p.operand(c.args[2])
	case opIn:
		return p.operand(c.args[0]) + " IN (" + join(", ", c.args[1:], p.operand) + ")"
	}
	if _, call := lookUpFunction(c.op); call {
		return string(c.op) + "(" + join(", ", c.args, p.operand) + ")"
	}
	return p.operand(c.args[0]) + " " + string(c.op) + " " + p.operand(c.args[1])
}

// child prints a condition inside another.
func (p *printer) child(c *cond) string {
	if c.op == opAnd || c.op == opOr {
		return "(" + p.condition(c) + ")"
	}
	return p.condition(c)
}

func (p *printer) operand(o *operand) string {
	args := func(separator string) string { return join(separator, o.args, p.operand) }
	switch o.kind {
	case operandValue:
		return p.values[o.ref]
	case operandSize:
		return "size(" + args(", ") + ")"
	case operandIfNotExists:
		return "if_not_exists(" + args(", ") + ")"
	case operandListAppend:
		return "list_append(" + args(", ") + ")"
	case operandAdd:
		return args(" + ")
	case operandSubtract:
		return args(" - ")
	}
	return p.path(o.path)
}

func (p *printer) path(steps path) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 && s.kind != stepIndex {
			b.WriteByte('.')
		}
		switch s.kind {
		case stepName:
			b.WriteString(s.name)
		case stepPlaceholder:
			b.WriteString(p.names[s.index])
		case stepIndex:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}
