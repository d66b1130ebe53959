package localdynamo_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/localdynamo"
)

var things = aws.String("things")

// wantInvalid requires a ValidationException whose message contains words.
func wantInvalid(t *testing.T, err error, words string) {
	t.Helper()
	var e *smithy.GenericAPIError
	if !errors.As(err, &e) || e.Code != "ValidationException" || !strings.Contains(e.Message, words) {
		t.Errorf("got %v, want a ValidationException with %q", err, words)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	it := item{
		"pk": str("a"), "sk": str("b"), "n": num("1.50e1"), "empty": str(""),
		"bin":  &types.AttributeValueMemberB{Value: []byte{}},
		"flag": &types.AttributeValueMemberBOOL{Value: true}, "null": &types.AttributeValueMemberNULL{Value: true},
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x"), num("1")}},
		"map":  &types.AttributeValueMemberM{Value: item{"x": num("1")}},
		"set":  &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
	}
	put(t, db, it)
	it["n"] = num("15")
	equal(t, get(t, db, "a", "b"), it)
	if got := get(t, db, "a", "c"); got != nil {
		t.Errorf("got %v, want no item", got)
	}
	// The caller may modify its maps after the call.
	got := get(t, db, "a", "b")
	got["map"].(*types.AttributeValueMemberM).Value["x"] = num("2")
	it["bin"].(*types.AttributeValueMemberB).Value = []byte("changed")
	equal(t, get(t, db, "a", "b")["map"], types.AttributeValue(&types.AttributeValueMemberM{Value: item{"x": num("1")}}))

	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: things, Key: key("a", "b"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		ProjectionExpression: aws.String("#l[1], nothing"), ExpressionAttributeNames: map[string]string{"#l": "list"},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.Item, item{"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1")}}})
	equal(t, *out.ConsumedCapacity.CapacityUnits, 0.5)
}

func TestItemLimits(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	long := func(n int) string { return strings.Repeat("x", n) }
	try := func(it item) error {
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it})
		return err
	}
	with := func(name string, v types.AttributeValue) item {
		it := key("a", "b")
		it[name] = v
		return it
	}
	for _, good := range []item{
		key(long(2048), "b"), key("a", long(1024)), with("v", str(long(409600-7))),
	} {
		if err := try(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []struct {
		it   item
		want string
	}{
		{nil, "'item'"},
		{item{"pk": str("a")}, "Missing the key sk"},
		{item{"pk": num("1"), "sk": str("b")}, "Type mismatch for key pk expected: S actual: N"},
		{key("", "b"), "empty string value. Key: pk"},
		{key("a", ""), "empty string value. Key: sk"},
		{key(long(2049), "b"), "2048"},
		{key("a", long(1025)), "1024"},
		{with("v", str(long(409600-4))), "Item size has exceeded"},
		{with("v", nil), "Supplied AttributeValue is empty"},
		{with("v", (*types.AttributeValueMemberS)(nil)), "Supplied AttributeValue is empty"},
		{with("v", &types.UnknownUnionMember{}), "Supplied AttributeValue is empty"},
		{with("", str("x")), "Empty attribute name"},
		{with("v", num("x")), "cannot be converted"},
		{with("v", &types.AttributeValueMemberSS{}), "may not be empty"},
		{with("v", &types.AttributeValueMemberNULL{}), "must have the value of true"},
	} {
		wantInvalid(t, try(bad.it), bad.want)
	}
	_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: things, Key: key("a", "b"), UpdateExpression: aws.String("SET w = :w"),
		ExpressionAttributeValues: item{":w": str(long(100))},
	})
	wantInvalid(t, err, "Item size to update has exceeded")
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	try := func(table *string, k item) error {
		_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: k})
		return err
	}
	wantInvalid(t, try(things, nil), "'key'")
	wantInvalid(t, try(things, item{"pk": str("a")}), "does not match the schema")
	wantInvalid(t, try(things, item{"pk": str("a"), "sk": num("1")}), "does not match the schema")
	wantInvalid(t, try(things, item{"pk": str("a"), "sk": str("b"), "c": str("c")}), "does not match the schema")
	wantInvalid(t, try(things, key("a", "")), "empty string")
	wantInvalid(t, try(nil, key("a", "b")), "tableName")
	wantInvalid(t, try(aws.String("x"), key("a", "b")), "Member must have length greater than or equal to 3")
	var missing *types.ResourceNotFoundException
	if err := try(aws.String("nothing"), key("a", "b")); !errors.As(err, &missing) {
		t.Errorf("got %v, want a ResourceNotFoundException", err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	it := item{"pk": str("a"), "sk": str("b"), "n": num("1")}
	try := func(it item, condition string) (*dynamodb.PutItemOutput, error) {
		return db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: things, Item: it, ConditionExpression: &condition, ReturnValues: types.ReturnValueAllOld,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
	}
	out, err := try(it, "attribute_not_exists(pk)")
	if err != nil || out.Attributes != nil {
		t.Fatal(out, err)
	}
	_, err = try(item{"pk": str("a"), "sk": str("b")}, "attribute_not_exists(pk)")
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	equal(t, failed.Item, it)
	equal(t, get(t, db, "a", "b"), it)
	if _, err = try(item{"pk": str("x"), "sk": str("b")}, "attribute_exists(pk)"); !errors.As(err, &failed) || failed.Item != nil {
		t.Error(err)
	}
	if out, err = try(item{"pk": str("a"), "sk": str("b")}, "attribute_exists(n)"); err != nil {
		t.Fatal(err)
	}
	equal(t, out.Attributes, it)
	_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: things, Key: key("a", "b"), ConditionExpression: aws.String("n = :n"), ExpressionAttributeValues: item{":n": num("1")},
	})
	if !errors.As(err, &failed) || failed.Item != nil {
		t.Error(err)
	}
	old, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("a", "b"), ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, old.Attributes, key("a", "b"))
	if old, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("a", "b"), ReturnValues: types.ReturnValueAllOld}); err != nil || old.Attributes != nil {
		t.Error(old, err)
	}
}

func TestUpdateReturnValues(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	update := func(mode types.ReturnValue) item {
		t.Helper()
		out, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: key("a", "b"), UpdateExpression: aws.String("SET n = if_not_exists(n, :zero) + :one"),
			ExpressionAttributeValues: item{":zero": num("0"), ":one": num("1")}, ReturnValues: mode,
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes
	}
	whole := func(n string) item { return item{"pk": str("a"), "sk": str("b"), "n": num(n)} }
	equal(t, update(types.ReturnValueUpdatedOld), item(nil))
	equal(t, update(types.ReturnValueAllOld), whole("1"))
	equal(t, update(types.ReturnValueAllNew), whole("3"))
	equal(t, update(types.ReturnValueUpdatedOld), item{"n": num("3")})
	equal(t, update(types.ReturnValueUpdatedNew), item{"n": num("5")})
	equal(t, update(""), item(nil))

	for _, c := range []struct{ update, want string }{
		{"SET pk = :one", "Cannot update attribute pk"},
		{"SET n.x = :one", "invalid for update"},
		{"SET n = nothing + :one", "does not exist in the item"},
		{"SET n = :one ADD", "Syntax error"},
	} {
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: key("a", "b"), UpdateExpression: &c.update, ExpressionAttributeValues: item{":one": num("1")},
		})
		wantInvalid(t, err, c.want)
	}
	equal(t, get(t, db, "a", "b"), whole("6"))

	// Without an expression an update creates an item with only a key.
	if _, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("new", "b")}); err != nil {
		t.Fatal(err)
	}
	equal(t, get(t, db, "new", "b"), key("new", "b"))
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("a", "b"), ReturnValues: types.ReturnValueAllNew})
	wantInvalid(t, err, "ReturnValues can only be ALL_OLD or NONE")
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	write := func(n int) float64 {
		out, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: things, Item: item{"pk": str("a"), "sk": str("b"), "v": str(strings.Repeat("x", n-7))},
			ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, out.ConsumedCapacity.Table.CapacityUnits, out.ConsumedCapacity.CapacityUnits)
		return *out.ConsumedCapacity.CapacityUnits
	}
	equal(t, write(1024), 1.0)
	equal(t, write(1025), 2.0)
	equal(t, write(9000), 9.0)
	equal(t, write(100), 9.0) // the larger of old and new
	equal(t, write(100), 1.0)
	write(4097)
	for consistent, want := range map[bool]float64{true: 2, false: 1} {
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: things, Key: key("a", "b"), ConsistentRead: &consistent, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, *out.ConsumedCapacity.CapacityUnits, want)
	}
}

func TestCreateTable(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	define := func(change func(*dynamodb.CreateTableInput)) error {
		in := &dynamodb.CreateTableInput{
			TableName: aws.String("other"), BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeB}},
		}
		change(in)
		_, err := db.CreateTable(t.Context(), in)
		return err
	}
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true)}
	}), "streams")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a b c") }), "Value 'a b c' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.KeySchema = nil }), "keySchema")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = types.KeyTypeRange }), "first KeySchemaElement")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[0].AttributeType = "BOOL" }), "[B, N, S]")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = nil }), "Some index key attribute have no definition")
	wantInvalid(t, define(func(in *dynamodb.CreateTableInput) { in.BillingMode = "" }), "ReadCapacityUnits")
	if err := define(func(*dynamodb.CreateTableInput) {}); err != nil {
		t.Fatal(err)
	}
	var inUse *types.ResourceInUseException
	if err := define(func(*dynamodb.CreateTableInput) {}); !errors.As(err, &inUse) {
		t.Errorf("got %v, want a ResourceInUseException", err)
	}
	k := item{"pk": &types.AttributeValueMemberB{Value: []byte{0, 1, 255}}}
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("other"), Item: k}); err != nil {
		t.Fatal(err)
	}
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("other"), Key: k})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.Item, k)
	d, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: things})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, d.Table.TableStatus, types.TableStatusActive)
	equal(t, len(d.Table.KeySchema), 2)
	equal(t, d.Table.BillingModeSummary.BillingMode, types.BillingModePayPerRequest)
}

func TestCanceledContextAndClose(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: things, Key: key("a", "b")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: things, Item: key("a", "b")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if get(t, db, "a", "b") != nil {
		t.Error("a canceled write took effect")
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("a", "b")}); !errors.Is(err, localdynamo.ErrClosed) {
		t.Error(err)
	}
	if _, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("a", "b")}); !errors.Is(err, localdynamo.ErrClosed) {
		t.Error(err)
	}
}
