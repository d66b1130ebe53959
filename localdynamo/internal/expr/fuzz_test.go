package expr_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

var kinds = []expr.Kind{expr.KindCondition, expr.KindFilter, expr.KindKeyCondition, expr.KindProjection, expr.KindUpdate}

// FuzzParse parses any text as every kind of expression and evaluates the result.
// Nothing may panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a = :a AND (b[1].#c <> :b OR NOT attribute_exists(d))", "a BETWEEN :a AND :b", "a IN (:a, :b, c)",
		"size(a) > :a", "SET a = b + :a, c = list_append(if_not_exists(d, :a), :b) REMOVE e[0] ADD f :a DELETE g :b",
		"a, b.c[2], #c", "((((a)))) = :a", "begins_with(a, :a)", strings.Repeat("NOT ", 50) + "a = :a", "a = :", "[0]",
	} {
		f.Add(seed)
	}
	names := map[string]string{"#c": "c"}
	values := map[string]types.AttributeValue{
		":a": &types.AttributeValueMemberN{Value: "1"},
		":b": &types.AttributeValueMemberSS{Value: []string{"x"}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range kinds {
			if _, err := expr.Parse(kind, text); err != nil {
				continue
			}
			scope, err := expr.NewScope(&expr.Cache{}, names, values)
			if err != nil {
				t.Fatal(err)
			}
			evaluate(scope, kind, text)
		}
	})
}

func evaluate(scope *expr.Scope, kind expr.Kind, text string) {
	item := expr.Fields{
		"a": &types.AttributeValueMemberN{Value: "1"},
		"b": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: expr.Fields{}}}},
		"g": &types.AttributeValueMemberSS{Value: []string{"x", "y"}},
	}
	switch kind {
	case expr.KindCondition, expr.KindFilter:
		if c, err := scope.Condition(kind, &text); err == nil {
			c.Match(item)
		}
	case expr.KindKeyCondition:
		if terms, err := scope.KeyTerms(text); err == nil {
			_, _ = terms.Resolve([]string{"a"}, []string{"b"})
		}
	case expr.KindProjection:
		if p, err := scope.Projection(&text); err == nil {
			p.Apply(item)
		}
	case expr.KindUpdate:
		if u, err := scope.Update(&text); err == nil {
			_ = u.Apply(item)
		}
	}
}

// TestHostileExpressions: expressions at and beyond the limits of depth and length are
// rejected. A parser of more than linear time would not terminate here.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("(", 4000), strings.Repeat("(", 2000) + "a = :a" + strings.Repeat(")", 2000),
		strings.Repeat("NOT ", 1000) + "a", strings.Repeat("size(", 800) + "a", strings.Repeat("(a=:a AND ", 400),
		strings.Repeat("a.", 2000) + "a = :a", strings.Repeat("a[0]", 1000), strings.Repeat("a=:a OR ", 500) + "a=:a",
		"a IN (" + strings.Repeat(":a,", 1000) + ":a)", strings.Repeat("x", 4097), strings.Repeat("\xff", 4096),
		"SET a = " + strings.Repeat("(", 4000), strings.Repeat("NOT (", 815), strings.Repeat("contains(a, ", 330), strings.Repeat("a IN (", 680), "SET a = " + strings.Repeat("if_not_exists(a,", 250) + ":a",
	} {
		for _, kind := range kinds {
			if _, err := expr.Parse(kind, text); err == nil {
				t.Errorf("%s: %.40q… accepted", kind, text)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	and := func(n int) string { return strings.Repeat("a=:a AND ", n) + "a=:a" }
	in := func(n int) string { return "a IN (" + strings.Repeat(":a,", n-1) + ":a)" }
	deep := func(n int) string { return strings.Repeat("a.", n-1) + "a = :a" }
	not := func(n int) string { return strings.Repeat("NOT ", n) + "a=:a" }
	nested := func(n int) string { return strings.Repeat("NOT (", n) + "a=:a" + strings.Repeat(")", n) }
	plus := func(n int) string { return "SET q=:a" + strings.Repeat(",a=b+:a", n) }
	put := func(n int) string { return "SET q=:a" + strings.Repeat(",a=:a", n) }
	const operators, parentheses = "too many operators; operator count: 301", "redundant parentheses"
	for _, c := range []struct {
		kind   expr.Kind
		text   string
		reject string
	}{
		{expr.KindCondition, and(149), ""}, // 150 comparisons and 149 ANDs
		{expr.KindCondition, and(150), operators},
		{expr.KindCondition, not(299), ""},
		{expr.KindCondition, not(300), operators},
		{expr.KindCondition, not(1000), operators},
		{expr.KindCondition, nested(299), ""},
		{expr.KindCondition, nested(300), operators},
		{expr.KindCondition, strings.Repeat("(", 2) + "a=:a" + strings.Repeat(")", 2), parentheses},
		{expr.KindCondition, strings.Repeat("(", 2000) + "a=:a" + strings.Repeat(")", 2000), parentheses},
		{expr.KindUpdate, plus(300), ""}, // an assignment is not an operator
		{expr.KindUpdate, plus(301), operators},
		{expr.KindUpdate, put(600), ""},
		{expr.KindCondition, in(100), ""},
		{expr.KindCondition, in(101), "too many operands; number of operands: 101"},
		{expr.KindCondition, deep(32), ""},
		{expr.KindCondition, deep(33), "too many nesting levels; nesting levels: 33"},
		{expr.KindCondition, "a = :a" + strings.Repeat(" ", 4090), ""},
		{expr.KindCondition, "a = :a" + strings.Repeat(" ", 4091), "expression size: 4097"},
		{expr.KindCondition, "a[2147483647] = :a", ""},
		{expr.KindCondition, "a[2147483648] = :a", "not within the allowable range"},
		{expr.KindCondition, "", "can not be empty"},
		{expr.KindCondition, " ", "Syntax error"},
	} {
		_, err := expr.Parse(c.kind, c.text)
		if c.reject == "" && err != nil || c.reject != "" && (err == nil || !strings.Contains(err.Error(), c.reject)) {
			t.Errorf("%.30q… (%d bytes): got %v, want %q", c.text, len(c.text), err, c.reject)
		}
	}
}

func TestNameLengthLimit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{65535, 65536} {
		name := strings.Repeat("n", n)
		_, scopeErr := expr.NewScope(&expr.Cache{}, map[string]string{"#n": name}, nil)
		_, getErr := expr.AttributesToGet([]string{name})
		_, expectErr := expr.Expected(map[string]types.ExpectedAttributeValue{name: {ComparisonOperator: types.ComparisonOperatorNull}}, "")
		for _, err := range []error{scopeErr, getErr, expectErr} {
			if rejected := err != nil; rejected != (n > 65535) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

func TestCacheEviction(t *testing.T) {
	t.Parallel()
	var c expr.Cache
	for i := range 3000 {
		if _, err := c.Parse(expr.KindProjection, "a"+strings.Repeat("b", i)); err != nil {
			t.Fatal(err)
		}
	}
	first, err := c.Parse(expr.KindProjection, "same")
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := c.Parse(expr.KindProjection, "same"); first != second {
		t.Error("the second Parse was a cache miss")
	}
}
