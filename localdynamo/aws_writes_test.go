package localdynamo_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// TestWriteErrorTexts: errors of PutItem, UpdateItem and DeleteItem that do not
// depend on the table begin with a count, the others do not.
func TestWriteErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	const counted = "1 validation error detected: "
	const invalid = counted + "One or more parameter values were invalid: "
	update := func(text string, values item) func(in *dynamodb.UpdateItemInput) {
		return func(in *dynamodb.UpdateItemInput) {
			in.UpdateExpression, in.ExpressionAttributeValues = &text, values
		}
	}
	one := item{":v": num("1")}
	for want, change := range map[string]func(in *dynamodb.UpdateItemInput){
		"One or more parameter values were invalid: Cannot update attribute sk. This attribute is part of the key":                 update("SET sk = :v", one),
		counted + `Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"`:                               update("INVALID SYNTAX HERE", one),
		counted + "Invalid UpdateExpression: The expression can not be empty;":                                                     update("", nil),
		counted + "Value provided in ExpressionAttributeValues unused in expressions: keys: {:more}":                               update("SET a = :v", item{":v": num("1"), ":more": num("1")}),
		counted + "Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :v": update("SET a = :v", nil),
		counted + "Invalid ConditionExpression: An expression attribute value used in expression is not defined; attribute value: :w": func(in *dynamodb.UpdateItemInput) {
			update("SET a = :v", one)(in)
			in.ConditionExpression = aws.String("a = :w")
		},
		counted + "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}": func(in *dynamodb.UpdateItemInput) {
			update("SET a = :v", one)(in)
			in.ExpressionAttributeNames = map[string]string{"#a": "a"}
		},
		counted + "ExpressionAttributeNames can only be specified when using expressions": func(in *dynamodb.UpdateItemInput) {
			in.ExpressionAttributeNames = map[string]string{"#a": "a"}
		},
		counted + "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributeUpdates} Expression parameters: {UpdateExpression}": func(in *dynamodb.UpdateItemInput) {
			update("SET a = :v", one)(in)
			in.AttributeUpdates = map[string]types.AttributeValueUpdate{"a": {Value: num("1")}}
		},
	} {
		in := &dynamodb.UpdateItemInput{TableName: things, Key: key("p", "s")}
		change(in)
		_, err := db.UpdateItem(t.Context(), in)
		wantMessage(t, err, want)
	}
	text := str("x")
	for want, in := range map[string]*dynamodb.DeleteItemInput{
		counted + "ExpressionAttributeValues can only be specified when using expressions":                                                 {ExpressionAttributeValues: one},
		counted + "ExpressionAttributeValues must not be empty":                                                                            {ConditionExpression: aws.String("attribute_exists(a)"), ExpressionAttributeValues: item{}},
		counted + "ExpressionAttributeNames must not be empty":                                                                             {ConditionExpression: aws.String("attribute_exists(a)"), ExpressionAttributeNames: map[string]string{}},
		counted + "Invalid ConditionExpression: The expression can not be empty;":                                                          {ConditionExpression: aws.String("")},
		counted + "ReturnValues can only be ALL_OLD or NONE":                                                                               {ReturnValues: types.ReturnValueUpdatedNew},
		invalid + "Value must be provided when Exists is true for Attribute: a":                                                            expectingOnA(types.ExpectedAttributeValue{Exists: aws.Bool(true)}),
		invalid + "Value cannot be used when Exists is false for Attribute: a":                                                             expectingOnA(types.ExpectedAttributeValue{Exists: aws.Bool(false), Value: text}),
		invalid + "Value and AttributeValueList cannot be used together for Attribute: a":                                                  expectingOnA(types.ExpectedAttributeValue{Value: text, ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{text}}),
		invalid + "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a":                                  expectingOnA(types.ExpectedAttributeValue{ComparisonOperator: types.ComparisonOperatorEq}),
		invalid + "Invalid number of argument(s) for the BETWEEN ComparisonOperator":                                                       expectingOnA(types.ExpectedAttributeValue{ComparisonOperator: types.ComparisonOperatorBetween, AttributeValueList: []types.AttributeValue{text}}),
		"The provided key element does not match the schema":                                                                               {Key: item{"pk": str("p")}},
		"One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk": {Key: key("", "s")},
	} {
		in.TableName = things
		if in.Key == nil {
			in.Key = key("p", "s")
		}
		_, err := db.DeleteItem(t.Context(), in)
		wantMessage(t, err, want)
	}
	for want, in := range map[string]*dynamodb.PutItemInput{
		invalid + "An string set  may not be empty":                                        {Item: withAttribute(&types.AttributeValueMemberSS{})},
		invalid + "An number set  may not be empty":                                        {Item: withAttribute(&types.AttributeValueMemberNS{})},
		invalid + "Binary sets should not be empty":                                        {Item: withAttribute(&types.AttributeValueMemberBS{})},
		invalid + "Null attribute value types must have the value of true":                 {Item: withAttribute(&types.AttributeValueMemberNULL{})},
		counted + "Invalid ConditionExpression: The expression has redundant parentheses;": {Item: key("p", "s"), ConditionExpression: aws.String("((attribute_exists(a)))")},
		counted + "Invalid ConditionExpression: The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [a]": {
			Item: key("p", "s"), ConditionExpression: aws.String("contains(a, a)"),
		},
		"One or more parameter values were invalid: Missing the key sk in the item": {Item: item{"pk": str("p")}},
	} {
		in.TableName = things
		_, err := db.PutItem(t.Context(), in)
		wantMessage(t, err, want)
	}
}

func expectingOnA(what types.ExpectedAttributeValue) *dynamodb.DeleteItemInput {
	return &dynamodb.DeleteItemInput{Expected: map[string]types.ExpectedAttributeValue{"a": what}}
}

// withAttribute returns an item with the attribute a and a key.
func withAttribute(v types.AttributeValue) item {
	it := key("p", "s")
	it["a"] = v
	return it
}

// TestConsumedCapacityByIndex: indexes that a write does not change are omitted.
// Read and write units are set only for transactions.
func TestConsumedCapacityByIndex(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	game := aws.String("games")
	put := func(more item) *types.ConsumedCapacity {
		it := item{"player": str("ann"), "game": str("chess")}
		for name, v := range more {
			it[name] = v
		}
		out, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: game, Item: it, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
		if err != nil {
			t.Fatal(err)
		}
		return out.ConsumedCapacity
	}
	unit := func(n float64) types.Capacity { return types.Capacity{CapacityUnits: &n} }
	table := unit(1)
	both := item{"score": num("1"), "at": num("1")}
	equal(t, put(item{"note": str("x")}), &types.ConsumedCapacity{TableName: game, CapacityUnits: aws.Float64(1), Table: &table})
	equal(t, put(both), &types.ConsumedCapacity{
		TableName: game, CapacityUnits: aws.Float64(3), Table: &table,
		GlobalSecondaryIndexes: map[string]types.Capacity{"top": unit(1)}, LocalSecondaryIndexes: map[string]types.Capacity{"recent": unit(1)},
	})
	equal(t, put(both), &types.ConsumedCapacity{TableName: game, CapacityUnits: aws.Float64(1), Table: &table})
	out, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: game, Key: item{"player": str("ann"), "game": str("chess")}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.ConsumedCapacity, &types.ConsumedCapacity{TableName: game, CapacityUnits: aws.Float64(3)})
}

// TestUpdateWithoutExpressionCreatesItem: the new item has only a key.
func TestUpdateWithoutExpressionCreatesItem(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	out, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("p", "s")})
	if err != nil || out.Attributes != nil {
		t.Errorf("got %+v, %v", out, err)
	}
	equal(t, get(t, db, "p", "s"), key("p", "s"))
}

// TestSetMembersAreSorted: strings and binaries are sorted by bytes, numbers by
// value.
func TestSetMembersAreSorted(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, withAttribute(&types.AttributeValueMemberNS{Value: []string{"10", "9", "-1", "-20"}}))
	equal(t, get(t, db, "p", "s")["a"], types.AttributeValue(&types.AttributeValueMemberNS{Value: []string{"-20", "-1", "9", "10"}}))
	put(t, db, withAttribute(&types.AttributeValueMemberSS{Value: []string{"b", "", "a"}}))
	equal(t, get(t, db, "p", "s")["a"], types.AttributeValue(&types.AttributeValueMemberSS{Value: []string{"", "a", "b"}}))
	put(t, db, withAttribute(&types.AttributeValueMemberBS{Value: [][]byte{{0xff}, {}, {1}}}))
	equal(t, get(t, db, "p", "s")["a"], types.AttributeValue(&types.AttributeValueMemberBS{Value: [][]byte{{}, {1}, {0xff}}}))
}

// TestNumberSyntax: numbers are returned without plus sign, leading and trailing
// zeros, and exponent; anything else is refused.
func TestNumberSyntax(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for given, want := range map[string]string{
		"+5": "5", "+1.5": "1.5", "+0": "0", "-0": "0", "+1e2": "100", "1.5E+3": "1500", "+.5": "0.5", "5.": "5", "1.e5": "100000",
		"00042": "42", "+1e-2": "0.01", "1.23E10": "12300000000", "0e125": "0",
	} {
		put(t, db, withAttribute(num(given)))
		equal(t, get(t, db, "p", "s")["a"], num(want))
	}
	for _, given := range []string{
		"+e2", "e2", "+1+2", "1+2", "1.2.3", "++5", "+-5", "+", "-", "1e", "1e+", ".", "1.2e3.4", "0x5", "NaN", "Infinity", "1_000", " 5", "5 ", "1 5", "",
		"1e9223372036854775808",
	} {
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: withAttribute(num(given))})
		wantMessage(t, err, "1 validation error detected: The parameter cannot be converted to a numeric value: "+given)
	}
	for given, want := range map[string]string{
		"1e2147483648": "overflow. Attempting to store a number with magnitude larger", "0e126": "overflow. Attempting to store a number with magnitude larger",
		"1e-99999999999": "underflow. Attempting to store a number with magnitude smaller", "0e-131": "underflow. Attempting to store a number with magnitude smaller",
	} {
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: withAttribute(num(given))})
		wantMessage(t, err, "1 validation error detected: Number "+want+" than supported range")
	}
}

// TestRemoveFromAbsentItemDoesNothing: an update with only REMOVE and DELETE does
// nothing to an absent item, however deep its paths are.
func TestRemoveFromAbsentItemDoesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	values := item{":s": &types.AttributeValueMemberSS{Value: []string{"x"}}}
	for _, update := range []string{"REMOVE a.b", "REMOVE a[0], b", "DELETE a.b :s", "REMOVE a.b DELETE c :s"} {
		given := values
		if !strings.Contains(update, ":s") {
			given = nil
		}
		out, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: key("absent", "x"), UpdateExpression: &update, ExpressionAttributeValues: given, ReturnValues: types.ReturnValueAllNew,
		})
		if err != nil || out.Attributes != nil {
			t.Errorf("%s: got %v, %v; want no attributes", update, out, err)
		}
		_, err = db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Update: &types.Update{
			TableName: things, Key: key("absent", "x"), UpdateExpression: &update, ExpressionAttributeValues: given,
		}}}})
		if err != nil {
			t.Errorf("%s in a transaction: %v", update, err)
		}
		equal(t, get(t, db, "absent", "x"), item(nil))
		// An update that also creates the item needs valid paths.
		adding := update + " SET d = :s"
		_, err = db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("absent", "x"), UpdateExpression: &adding, ExpressionAttributeValues: values})
		wantInvalid(t, err, "invalid for update")
		put(t, db, key("there", "x"))
		_, err = db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("there", "x"), UpdateExpression: &update, ExpressionAttributeValues: given})
		wantInvalid(t, err, "invalid for update")
	}
}
