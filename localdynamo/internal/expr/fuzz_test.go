package expr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

var kinds = []expr.Kind{expr.KindCondition, expr.KindFilter, expr.KindKeyCondition, expr.KindProjection, expr.KindUpdate}

// FuzzParse feeds any text to every kind of expression, and evaluates what
// parses: nothing may panic, and what the parser accepts must be evaluable.
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
		_, _ = scope.KeyCondition(text, "a", "b")
	case expr.KindProjection:
		if p, err := scope.Projection(&text); err == nil {
			p.Of(item)
		}
	case expr.KindUpdate:
		if u, err := scope.Update(&text); err == nil {
			_ = u.Apply(item)
		}
	}
}

// TestHostileExpressions: as deep and as long as the bounds allow, and beyond.
func TestHostileExpressions(t *testing.T) {
	start := time.Now()
	for _, text := range []string{
		strings.Repeat("(", 4000), strings.Repeat("(", 2000) + "a = :a" + strings.Repeat(")", 2000),
		strings.Repeat("NOT ", 1000) + "a", strings.Repeat("size(", 800) + "a", strings.Repeat("(a=:a AND ", 400),
		strings.Repeat("a.", 2000) + "a = :a", strings.Repeat("a[0]", 1000), strings.Repeat("a=:a OR ", 500) + "a=:a",
		"a IN (" + strings.Repeat(":a,", 1000) + ":a)", strings.Repeat("x", 4097), strings.Repeat("\xff", 4096),
		"SET a = " + strings.Repeat("(", 4000), "SET a = " + strings.Repeat("if_not_exists(a,", 250) + ":a",
	} {
		for _, kind := range kinds {
			if _, err := expr.Parse(kind, text); err == nil {
				t.Errorf("%s: %.40q… was accepted", kind, text)
			}
		}
	}
	// A thousand times what it takes: the point is that nothing is exponential.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestLimits(t *testing.T) {
	and := func(n int) string { return strings.Repeat("a=:a AND ", n) + "a=:a" }
	in := func(n int) string { return "a IN (" + strings.Repeat(":a,", n-1) + ":a)" }
	deep := func(n int) string { return strings.Repeat("a.", n-1) + "a = :a" }
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{and(149), true},
		{and(150), false}, // 150 comparisons and 149 ANDs are 299 operators
		{in(100), true},
		{in(101), false},
		{deep(32), true},
		{deep(33), false},
		{"a = :a" + strings.Repeat(" ", 4090), true},
		{"a = :a" + strings.Repeat(" ", 4091), false},
		{"a[2147483647] = :a", true},
		{"a[2147483648] = :a", false},
		{"", false},
		{" ", false},
	} {
		if _, err := expr.Parse(expr.KindCondition, c.text); (err == nil) != c.ok {
			t.Errorf("%.30q… (%d bytes): error %v", c.text, len(c.text), err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
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
		t.Error("parsed twice")
	}
}
