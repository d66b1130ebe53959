package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

// countedDocument counts how often it is read.
type countedDocument struct {
	expr.Fields
	attributes, selects int
}

func (d *countedDocument) Attribute(name string) types.AttributeValue {
	d.attributes++
	return d.Fields.Attribute(name)
}

func (d *countedDocument) Select(names []string, fn func(name string, v types.AttributeValue)) {
	d.selects++
	d.Fields.Select(names, fn)
}

// TestDocumentIsReadOnce: the number of times that an expression reads a document does
// not grow with its names. Reading one attribute may cost as much as reading the item.
func TestDocumentIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 20, 120} {
		names, filter := make([]string, n), make(map[string]types.Condition, n)
		comparisons := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("a%03d", n-i)
			comparisons[i] = names[i] + " = :v"
			filter[names[i]] = types.Condition{ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{&types.AttributeValueMemberS{Value: "x"}}}
		}
		item := expr.Fields{names[0]: &types.AttributeValueMemberS{Value: "y"}}
		scope, err := expr.NewScope(&expr.Cache{}, nil, map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		projected, compared := strings.Join(names, ","), strings.Join(comparisons, " OR ")
		projection, err := scope.Projection(&projected)
		if err != nil {
			t.Fatal(err)
		}
		condition, err := scope.Condition(expr.KindFilter, &compared)
		if err != nil {
			t.Fatal(err)
		}
		legacy, err := expr.Filter(expr.KindScanFilter, filter, types.ConditionalOperatorOr)
		if err != nil {
			t.Fatal(err)
		}
		for what, read := range map[string]func(expr.Document){
			"projection": func(d expr.Document) {
				if got := projection.Apply(d); len(got) != 1 || got[names[0]] == nil {
					t.Errorf("%d names: projected %v", n, got)
				}
			},
			"condition": func(d expr.Document) {
				if condition.Match(d) {
					t.Errorf("%d names: the condition matched", n)
				}
			},
			"legacy filter": func(d expr.Document) {
				if legacy.Match(d) {
					t.Errorf("%d names: the filter matched", n)
				}
			},
		} {
			d := &countedDocument{Fields: item}
			read(d)
			if d.selects > 1 || d.attributes > 8 {
				t.Errorf("%s of %d names: selected %d times, and read %d attributes one by one", what, n, d.selects, d.attributes)
			}
		}
	}
}
