package expr_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/datadriven"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

// element is an element of any legacy parameter, as on the wire.
type element struct {
	ComparisonOperator types.ComparisonOperator
	AttributeValueList []json.RawMessage
	Value              json.RawMessage
	Exists             *bool
	Action             types.AttributeAction
}

// runLegacy runs the commands of TestFixtures for legacy parameters. known reports
// whether d is one. The argument "operator" is the ConditionalOperator.
func runLegacy(t *testing.T, d *datadriven.TestData, item expr.Fields) (out string, known bool, err error) {
	switch d.Cmd {
	case "expected":
		out, err = match(item)(expr.Expected(readExpected(t, d.Input), operatorOf(t, d)))
	case "filter":
		out, err = match(item)(expr.Filter(expr.KindScanFilter, readConditions(t, d.Input), operatorOf(t, d)))
	case "keyconditions":
		ranges := []string{"sk"}
		if d.HasArg("hash-only") {
			ranges = nil
		}
		k, e := expr.KeyConditions(readConditions(t, d.Input), []string{"pk"}, ranges)
		if err = e; e == nil {
			out = showKey(k)
		}
	case "updates":
		u, e := expr.AttributeUpdates(readUpdates(t, d.Input))
		if err = e; e == nil {
			out, err = apply(u, item)
		}
	case "get":
		p, e := expr.AttributesToGet(strings.Fields(d.Input))
		if err = e; e == nil {
			out = showItem(p.Apply(item))
		}
	default:
		return "", false, nil
	}
	return out, true, err
}

func match(item expr.Fields) func(*expr.Condition, error) (string, error) {
	return func(c *expr.Condition, err error) (string, error) { return fmt.Sprint(c.Match(item)), err }
}

// apply formats the updated item, and the touched parts before and after.
func apply(u *expr.Update, item map[string]types.AttributeValue) (string, error) {
	before := expr.Fields(copyItem(item))
	after := copyItem(item)
	if err := u.Apply(after); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\nold: %s\nnew: %s", showItem(after), showItem(u.Touched(before)), showItem(u.Touched(expr.Fields(after)))), nil
}

func operatorOf(t *testing.T, d *datadriven.TestData) types.ConditionalOperator {
	var operator string
	if d.HasArg("operator") {
		d.ScanArgs(t, "operator", &operator)
	}
	return types.ConditionalOperator(operator)
}

func readElements(t *testing.T, text string) map[string]element {
	t.Helper()
	var out map[string]element
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func (e element) values(t *testing.T) []types.AttributeValue {
	if e.AttributeValueList == nil {
		return nil
	}
	list := []types.AttributeValue{}
	for _, raw := range e.AttributeValueList {
		list = append(list, readValue(t, raw))
	}
	return list
}

func (e element) value(t *testing.T) types.AttributeValue {
	if e.Value == nil {
		return nil
	}
	return readValue(t, e.Value)
}

func readExpected(t *testing.T, text string) map[string]types.ExpectedAttributeValue {
	out := map[string]types.ExpectedAttributeValue{}
	for name, e := range readElements(t, text) {
		out[name] = types.ExpectedAttributeValue{
			ComparisonOperator: e.ComparisonOperator, AttributeValueList: e.values(t), Value: e.value(t), Exists: e.Exists,
		}
	}
	return out
}

func readConditions(t *testing.T, text string) map[string]types.Condition {
	out := map[string]types.Condition{}
	for name, e := range readElements(t, text) {
		out[name] = types.Condition{ComparisonOperator: e.ComparisonOperator, AttributeValueList: e.values(t)}
	}
	return out
}

func readUpdates(t *testing.T, text string) map[string]types.AttributeValueUpdate {
	out := map[string]types.AttributeValueUpdate{}
	for name, e := range readElements(t, text) {
		out[name] = types.AttributeValueUpdate{Action: e.Action, Value: e.value(t)}
	}
	return out
}

// TestUpdateCreatesItem: an update of only REMOVE and DELETE creates no item, as on AWS.
// DynamoDB Local stores an item with only the key.
func TestUpdateCreatesItem(t *testing.T) {
	t.Parallel()
	remove := map[string]types.AttributeValueUpdate{"a": {Action: types.AttributeActionDelete}}
	put := map[string]types.AttributeValueUpdate{"a": {Value: &types.AttributeValueMemberN{Value: "1"}}}
	for _, c := range []struct {
		updates map[string]types.AttributeValueUpdate
		creates bool
	}{{remove, false}, {put, true}, {nil, true}} {
		u, err := expr.AttributeUpdates(c.updates)
		if err != nil {
			t.Fatal(err)
		}
		if u.Creates() != c.creates {
			t.Errorf("%v: creates %v", c.updates, u.Creates())
		}
	}
	values := map[string]types.AttributeValue{":s": &types.AttributeValueMemberSS{Value: []string{"x"}}}
	for text, creates := range map[string]bool{
		"REMOVE a": false, "DELETE a :s": false, "REMOVE a DELETE b :s": false,
		"ADD a :s": true, "SET a = :s": true, "SET a = :s REMOVE b": true,
	} {
		scope, err := expr.NewScope(&expr.Cache{}, nil, values)
		if err != nil {
			t.Fatal(err)
		}
		u, err := scope.Update(&text)
		if err != nil {
			t.Fatal(err)
		}
		if u.Creates() != creates {
			t.Errorf("%s: creates %v", text, u.Creates())
		}
	}
}
