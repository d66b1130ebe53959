package localdynamo_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// Aliases for the legacy parameters.
type (
	expected   = map[string]types.ExpectedAttributeValue
	conditions = map[string]types.Condition
	updates    = map[string]types.AttributeValueUpdate
)

func compared(operator types.ComparisonOperator, values ...types.AttributeValue) types.Condition {
	return types.Condition{ComparisonOperator: operator, AttributeValueList: values}
}

func TestExpected(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	present := item{"pk": str("a"), "sk": str("b"), "n": num("1"), "s": str("x")}
	for _, c := range []struct {
		name     string
		expected expected
		operator types.ConditionalOperator
		holds    bool
	}{
		{"the value", expected{"n": {Value: num("1.0")}}, "", true},
		{"another value", expected{"n": {Value: num("2")}}, "", false},
		{"absent", expected{"q": {Exists: aws.Bool(false)}}, "", true},
		{"not absent", expected{"n": {Exists: aws.Bool(false)}}, "", false},
		{"both", expected{"n": {Value: num("1")}, "s": {Value: str("y")}}, types.ConditionalOperatorAnd, false},
		{"one of them", expected{"n": {Value: num("1")}, "s": {Value: str("y")}}, types.ConditionalOperatorOr, true},
		{"nothing", expected{}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(t, db, present)
			_, putErr := db.PutItem(t.Context(), &dynamodb.PutItemInput{
				TableName: things, Item: present, Expected: c.expected, ConditionalOperator: c.operator,
			})
			_, updateErr := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: things, Key: key("a", "b"), Expected: c.expected, ConditionalOperator: c.operator,
			})
			_, deleteErr := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: things, Key: key("a", "b"), Expected: c.expected, ConditionalOperator: c.operator,
			})
			for _, err := range []error{putErr, updateErr, deleteErr} {
				var failed *types.ConditionalCheckFailedException
				if c.holds != (err == nil) || err != nil && !errors.As(err, &failed) {
					t.Errorf("got %v, want the condition to hold: %v", err, c.holds)
				}
			}
			if gone := get(t, db, "a", "b") == nil; gone != c.holds {
				t.Errorf("item deleted: %v, want %v", gone, c.holds)
			}
		})
	}
}

func TestExpectedReturnsItemOnFailure(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	it := item{"pk": str("a"), "sk": str("b"), "n": num("1")}
	put(t, db, it)
	_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: things, Key: key("a", "b"), Expected: expected{"n": {Value: num("2")}},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	equal(t, failed.Item, it)
}

func TestAttributeUpdates(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, item{
		"pk": str("a"), "sk": str("b"), "n": num("1"), "kept": str("x"), "gone": str("y"),
		"set": &types.AttributeValueMemberSS{Value: []string{"u", "v"}}, "list": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1")}},
	})
	change := updates{
		"n":    {Action: types.AttributeActionAdd, Value: num("2")},
		"new":  {Value: str("put is the default")},
		"gone": {Action: types.AttributeActionDelete},
		"set":  {Action: types.AttributeActionDelete, Value: &types.AttributeValueMemberSS{Value: []string{"u", "w"}}},
		"list": {Action: types.AttributeActionAdd, Value: &types.AttributeValueMemberL{Value: []types.AttributeValue{num("2")}}},
		"nope": {Action: types.AttributeActionDelete},
	}
	out, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: things, Key: key("a", "b"), AttributeUpdates: change, ReturnValues: types.ReturnValueUpdatedNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	changed := item{
		"n": num("3"), "new": str("put is the default"), "set": &types.AttributeValueMemberSS{Value: []string{"v"}},
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1"), num("2")}},
	}
	equal(t, out.Attributes, changed)
	changed["pk"], changed["sk"], changed["kept"] = str("a"), str("b"), str("x")
	equal(t, get(t, db, "a", "b"), changed)
	for words, u := range map[string]updates{
		"Only DELETE action is allowed":          {"n": {}},
		"Type mismatch for attribute to update":  {"kept": {Action: types.AttributeActionAdd, Value: num("1")}},
		"Cannot update attribute sk":             {"sk": {Value: str("c")}},
		"ADD action is not supported for the ty": {"kept": {Action: types.AttributeActionAdd, Value: str("x")}},
	} {
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("a", "b"), AttributeUpdates: u})
		wantInvalid(t, err, words)
	}
}

// TestDeletingUpdatesCreateNoItem: as on AWS, an update creates an absent item
// unless it only removes attributes or set members.
func TestDeletingUpdatesCreateNoItem(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for sk, c := range map[string]struct {
		change  dynamodb.UpdateItemInput
		created bool
	}{
		"nothing":    {dynamodb.UpdateItemInput{}, true},
		"no updates": {dynamodb.UpdateItemInput{AttributeUpdates: updates{}}, true},
		"put":        {dynamodb.UpdateItemInput{AttributeUpdates: updates{"a": {Value: num("1")}, "b": {Action: types.AttributeActionDelete}}}, true},
		"delete":     {dynamodb.UpdateItemInput{AttributeUpdates: updates{"a": {Action: types.AttributeActionDelete}}}, false},
		"remove":     {dynamodb.UpdateItemInput{UpdateExpression: aws.String("REMOVE a, b")}, false},
	} {
		in := c.change
		in.TableName, in.Key, in.ReturnValues = things, key("a", sk), types.ReturnValueAllNew
		out, err := db.UpdateItem(t.Context(), &in)
		if err != nil {
			t.Errorf("%s: %v", sk, err)
			continue
		}
		if created := get(t, db, "a", sk) != nil; created != c.created || created != (out.Attributes != nil) {
			t.Errorf("%s: created %v, returned %v", sk, created, out.Attributes)
		}
	}
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Update: &types.Update{TableName: things, Key: key("a", "transaction"), UpdateExpression: aws.String("REMOVE a")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, db, "a", "transaction"); got != nil {
		t.Errorf("a transaction created %v", got)
	}
}

func TestLegacyReads(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for i, sk := range []string{"a", "b", "c", "d"} {
		put(t, db, item{"pk": str("p"), "sk": str(sk), "n": num(string(rune('0' + i))), "s": str("x")})
	}
	pk := compared(types.ComparisonOperatorEq, str("p"))
	query := func(in dynamodb.QueryInput) (names string) {
		t.Helper()
		in.TableName = things
		out, err := db.Query(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		return sortKeys(out.Items)
	}
	equal(t, query(dynamodb.QueryInput{KeyConditions: conditions{"pk": pk}}), "abcd")
	equal(t, query(dynamodb.QueryInput{KeyConditions: conditions{"pk": pk, "sk": compared(types.ComparisonOperatorBetween, str("b"), str("c"))}}), "bc")
	equal(t, query(dynamodb.QueryInput{
		KeyConditions: conditions{"pk": pk, "sk": compared(types.ComparisonOperatorGe, str("b"))},
		QueryFilter:   conditions{"n": compared(types.ComparisonOperatorNe, num("2"))},
	}), "bd")
	// Of the legacy parameters, only KeyConditions can be combined with expressions.
	equal(t, query(dynamodb.QueryInput{
		KeyConditions: conditions{"pk": pk}, FilterExpression: aws.String("n > :one"), ProjectionExpression: aws.String("sk"),
		ExpressionAttributeValues: item{":one": num("1")},
	}), "cd")
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: things, AttributesToGet: []string{"sk"}, ConditionalOperator: types.ConditionalOperatorOr,
		ScanFilter: conditions{"n": compared(types.ComparisonOperatorEq, num("0")), "sk": compared(types.ComparisonOperatorEq, str("d"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.Items, []item{{"sk": str("a")}, {"sk": str("d")}})
	got, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", "b"), AttributesToGet: []string{"n", "nope"}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got.Item, item{"n": num("1")})
	batch, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"things": {Keys: []item{key("p", "b")}, AttributesToGet: []string{"n", "nope"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, batch.Responses["things"], []item{{"n": num("1")}})
}

func sortKeys(items []item) (names string) {
	for _, it := range items {
		names += it["sk"].(*types.AttributeValueMemberS).Value
	}
	return names
}

func TestLegacyQueriesRefused(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	pk := compared(types.ComparisonOperatorEq, str("p"))
	one := conditions{"n": compared(types.ComparisonOperatorEq, num("1"))}
	for words, in := range map[string]dynamodb.QueryInput{
		"Either the KeyConditions or KeyConditionExpression":                                         {QueryFilter: one},
		"QueryFilter can only contain non-primary key attributes: Primary key attribute: sk":         {KeyConditions: conditions{"pk": pk}, QueryFilter: conditions{"sk": pk}},
		"Query condition missed key schema element: pk":                                              {KeyConditions: one},
		"Condition parameter type does not match schema type":                                        {KeyConditions: conditions{"pk": one["n"]}},
		"ConditionalOperator cannot be used without Filter or Expected":                              {KeyConditions: conditions{"pk": pk}, ConditionalOperator: types.ConditionalOperatorAnd},
		"Cannot specify the AttributesToGet when choosing to get only the Count":                     {KeyConditions: conditions{"pk": pk}, AttributesToGet: []string{"n"}, Select: types.SelectCount},
		"Duplicate value in attribute name: n":                                                       {KeyConditions: conditions{"pk": pk}, AttributesToGet: []string{"n", "n"}},
		"Non-expression parameters: {KeyConditions} Expression parameters: {KeyConditionExpression}": {KeyConditions: conditions{"pk": pk}, KeyConditionExpression: aws.String("pk = :p")},
		"Non-expression parameters: {QueryFilter} Expression parameters: {ProjectionExpression}":     {KeyConditions: conditions{"pk": pk}, QueryFilter: one, ProjectionExpression: aws.String("n")},
		"ExpressionAttributeNames can only be specified when using expressions":                      {KeyConditions: conditions{"pk": pk}, ExpressionAttributeNames: map[string]string{"#n": "n"}},
		"when using expressions: FilterExpression and KeyConditionExpression are null":               {KeyConditions: conditions{"pk": pk}, ExpressionAttributeValues: item{":n": num("1")}},
		"{AttributesToGet, QueryFilter, ConditionalOperator} Expression parameters: {FilterExpression}": {
			KeyConditions: conditions{"pk": pk}, AttributesToGet: []string{"n"}, QueryFilter: one, ConditionalOperator: types.ConditionalOperatorOr, FilterExpression: aws.String("("),
		},
	} {
		in.TableName = things
		_, err := db.Query(t.Context(), &in)
		wantInvalid(t, err, words)
	}
}

func TestMixingLegacyAndExpressionsIsRefused(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	absent := expected{"n": {Exists: aws.Bool(false)}}
	_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: things, Key: key("a", "b"), AttributeUpdates: updates{"n": {}}, Expected: absent, ConditionalOperator: types.ConditionalOperatorOr,
		UpdateExpression: aws.String("SET n = :n"), ConditionExpression: aws.String("("),
	})
	wantInvalid(t, err, "Can not use both expression and non-expression parameters in the same request: "+
		"Non-expression parameters: {AttributeUpdates, Expected, ConditionalOperator} Expression parameters: {UpdateExpression, ConditionExpression}")
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("a", "b"), Expected: expected{}, ConditionExpression: aws.String("attribute_exists(n)")})
	wantInvalid(t, err, "{Expected} Expression parameters: {ConditionExpression}")
	_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("a", "b"), Expected: absent, ExpressionAttributeValues: item{":n": num("1")}})
	wantInvalid(t, err, "1 validation error detected: ExpressionAttributeValues can only be specified when using expressions")
	_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("a", "b"), AttributesToGet: []string{"n"}, ProjectionExpression: aws.String("n")})
	wantInvalid(t, err, "{AttributesToGet} Expression parameters: {ProjectionExpression}")
	_, err = db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"things": {Keys: []item{key("a", "b")}, AttributesToGet: []string{"n"}, ProjectionExpression: aws.String("n")},
	}})
	wantInvalid(t, err, "{AttributesToGet} Expression parameters: {ProjectionExpression}")
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, ScanFilter: conditions{}, FilterExpression: aws.String("attribute_exists(n)")})
	wantInvalid(t, err, "{ScanFilter} Expression parameters: {FilterExpression}")
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, ProjectionExpression: aws.String("n"), ExpressionAttributeValues: item{":n": num("1")}})
	wantInvalid(t, err, "when using expressions: FilterExpression is null")
}
