package localdynamo_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// The tests of this file check observed responses of AWS to transactions, and to
// values for which it has two error texts, literally.

// nestedMaps is a string nested in this many maps.
func nestedMaps(maps int) types.AttributeValue {
	v := str("leaf")
	for range maps {
		v = &types.AttributeValueMemberM{Value: item{"n": v}}
	}
	return v
}

// with returns a copy of it with one attribute set.
func with(it item, name string, v types.AttributeValue) item {
	it = maps.Clone(it)
	it[name] = v
	return it
}

func checking(it item, condition string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: things, Key: it, ConditionExpression: &condition, ExpressionAttributeValues: values}}
}

func updating(it item, update string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: things, Key: it, UpdateExpression: &update, ExpressionAttributeValues: values}}
}

func deleting(it item, condition ...string) types.TransactWriteItem {
	d := &types.Delete{TableName: things, Key: it}
	for _, c := range condition {
		d.ConditionExpression = &c
	}
	return types.TransactWriteItem{Delete: d}
}

// onTable returns the action for the table of this name.
func onTable(name string, action types.TransactWriteItem) types.TransactWriteItem {
	switch {
	case action.Put != nil:
		action.Put.TableName = &name
	case action.Update != nil:
		action.Update.TableName = &name
	case action.Delete != nil:
		action.Delete.TableName = &name
	default:
		action.ConditionCheck.TableName = &name
	}
	return action
}

const tooDeep = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"

// TestTransactWriteErrorTexts also checks which of several errors is reported.
func TestTransactWriteErrorTexts(t *testing.T) {
	t.Parallel()
	const badName = "' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
	const syntax = `Invalid ConditionExpression: Syntax error; token: "<EOF>", near: "("`
	const unused = "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"
	const empty = "Invalid ConditionExpression: The expression can not be empty;"
	k := func() item { return key("p", "s") }
	good, other := putting(k(), ""), key("p", "t")
	condition := "a = :v" + strings.Repeat(" AND a = :v", 373)
	db := open(t, localdynamo.Options{})
	for _, test := range []struct {
		words   string
		actions []types.TransactWriteItem
	}{
		{"1 validation error detected: Value 'bad!name' at 'transactItems.1.member.put.tableName" + badName, []types.TransactWriteItem{onTable("bad!name", putting(k(), ""))}},
		{"1 validation error detected: Value 'bad!name' at 'transactItems.2.member.update.tableName" + badName, []types.TransactWriteItem{good, onTable("bad!name", updating(other, "SET a = :v", item{":v": num("1")}))}},
		{"1 validation error detected: Value 'bad!name' at 'transactItems.1.member.delete.tableName" + badName, []types.TransactWriteItem{onTable("bad!name", deleting(k()))}},
		{"1 validation error detected: Value 'bad!name' at 'transactItems.1.member.conditionCheck.tableName" + badName, []types.TransactWriteItem{onTable("bad!name", checking(k(), "attribute_exists(pk)", nil))}},
		{"1 validation error detected: Value '' at 'transactItems' failed to satisfy constraint: TransactWriteRequest should contain Delete or Put or Update or ConditionCheck", make([]types.TransactWriteItem, 1)},
		{"1 validation error detected: Value at 'TransactItems' failed to satisfy constraint: Member must have length greater than or equal to 1", nil},
		{empty, []types.TransactWriteItem{deleting(k(), ""), good}},
		{syntax, []types.TransactWriteItem{onTable("absent", putting(k(), "")), checking(other, "attribute_not_exists(", nil)}},
		{syntax, []types.TransactWriteItem{checking(other, "attribute_not_exists(", nil), putting(with(k(), "d", nestedMaps(32)), "")}},
		{tooDeep, []types.TransactWriteItem{putting(with(k(), "d", nestedMaps(32)), ""), checking(other, "attribute_not_exists(", nil)}},
		{unused, []types.TransactWriteItem{onTable("absent", putting(k(), "")), checking(other, "attribute_exists(pk)", item{":v": num("1")})}},
		{unused, []types.TransactWriteItem{good, checking(k(), "attribute_exists(pk)", item{":v": num("1")})}},
		{unused, []types.TransactWriteItem{updating(k(), "SET a = :a", item{":a": num("1"), ":v": num("1")}), checking(with(other, "sk", nestedMaps(100)), "attribute_exists(pk)", nil)}},
		{tooDeep, []types.TransactWriteItem{putting(with(k(), "d", nestedMaps(40)), ""), putting(with(key("p", "t"), "", str("x")), "")}},
		{"Empty attribute name", []types.TransactWriteItem{putting(with(k(), "", str("x")), ""), putting(with(key("p", "t"), "d", nestedMaps(100)), "")}},
		{"Empty attribute name", []types.TransactWriteItem{putting(with(with(k(), "", str("x")), "d", nestedMaps(100)), "")}},
		{tooDeep, []types.TransactWriteItem{putting(with(with(k(), "m", &types.AttributeValueMemberM{Value: item{"": str("x")}}), "d", nestedMaps(40)), "")}},
		{tooDeep, []types.TransactWriteItem{checking(k(), "d = :d", item{":d": nestedMaps(40)}), putting(with(key("p", "t"), "", str("x")), "")}},
		{tooDeep, []types.TransactWriteItem{deleting(with(k(), "pk", nestedMaps(40))), putting(key("p", "t"), "a = = b")}},
		{`Invalid ConditionExpression: Syntax error; token: "=", near: "= = b"`, []types.TransactWriteItem{deleting(with(k(), "pk", nestedMaps(100)), "a = = b")}},
		{"Invalid UpdateExpression: Expression size has exceeded the maximum allowed size;", []types.TransactWriteItem{updating(k(), "SET "+strings.Repeat("a = :v, ", 600)+"b = :v", item{":v": str("x")}), checking(with(other, "pk", nestedMaps(100)), "attribute_exists(a)", nil)}},
		{"Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; expression size: 4109", []types.TransactWriteItem{checking(with(k(), "pk", nestedMaps(100)), condition, item{":v": str("x")})}},
		{"Transaction request cannot include multiple operations on one item", []types.TransactWriteItem{good, deleting(k())}},
	} {
		wantMessage(t, transact(t, db, test.actions...), test.words)
	}
	if get(t, db, "p", "s") != nil {
		t.Error("a refused transaction wrote an item")
	}
}

// TestTransactionConstraintErrors: the token is checked first, then all enums
// together.
func TestTransactionConstraintErrors(t *testing.T) {
	t.Parallel()
	const capacity = "Value 'BOGUS' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
	const metrics = "Value 'BOGUS' at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]"
	db := open(t, localdynamo.Options{})
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{putting(key("p", "s"), ""), onTable("absent", deleting(key("p", "s")))},
	}
	in.ReturnConsumedCapacity = "BOGUS"
	_, err := db.TransactWriteItems(t.Context(), in)
	wantMessage(t, err, "1 validation error detected: "+capacity)
	in.ReturnItemCollectionMetrics = "BOGUS"
	_, err = db.TransactWriteItems(t.Context(), in)
	wantMessage(t, err, "2 validation errors detected: "+capacity+"; "+metrics)
	in.ClientRequestToken = aws.String(strings.Repeat("x", 37))
	_, err = db.TransactWriteItems(t.Context(), in)
	wantMessage(t, err, "1 validation error detected: Value at 'ClientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36")

	gets := &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: aws.String("absent"), Key: key("p", "s")}}}}
	gets.ReturnConsumedCapacity = "BOGUS"
	_, err = db.TransactGetItems(t.Context(), gets)
	wantMessage(t, err, "1 validation error detected: "+capacity)

	_, err = db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
		RequestItems:           map[string][]types.WriteRequest{"absent": {{DeleteRequest: &types.DeleteRequest{Key: key("p", "s")}}}},
		ReturnConsumedCapacity: "BOGUS", ReturnItemCollectionMetrics: "BOGUS",
	})
	wantMessage(t, err, "2 validation errors detected: "+capacity+"; "+metrics)
}

func TestTransactGetErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	read := func(get types.Get) error {
		_, err := db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &get}}})
		return err
	}
	wantMessage(t, read(types.Get{TableName: things, Key: key("p", "s"), ProjectionExpression: aws.String("!!!")}), `Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"`)
	wantMessage(t, read(types.Get{TableName: aws.String("bad!name"), Key: key("p", "s")}), "1 validation error detected: Value 'bad!name' at 'transactItems.1.member.get.tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	codes, message := canceledFor(t, read(types.Get{TableName: things, Key: item{}}))
	equal(t, codes, []string{"ValidationError"})
	equal(t, message, "The provided key element does not match the schema")
}

// TestTransactionInvalidIndexKeys: an update that sets an index key to an empty
// value is refused; one that changes its type cancels the transaction.
func TestTransactionInvalidIndexKeys(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := plainTable("indexed")
	in.AttributeDefinitions = defs("pk", "sk", "g")
	in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: aws.String("by-g"), KeySchema: keys("g"), Projection: everything}}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	set := func(v types.AttributeValue) types.TransactWriteItem {
		return onTable("indexed", updating(key("p", "s"), "SET g = :v", item{":v": v}))
	}
	wantMessage(t, transact(t, db, set(str(""))), "One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value.")
	for kind, v := range map[string]types.AttributeValue{"N": num("5"), "L": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x")}}} {
		for _, action := range []types.TransactWriteItem{set(v), onTable("indexed", putting(with(key("p", "s"), "g", v), ""))} {
			codes, message := canceledFor(t, transact(t, db, action))
			equal(t, codes, []string{"ValidationError"})
			equal(t, message, "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: "+kind+" IndexName: by-g")
		}
	}
}

// TestTransactionItemTooLarge: an item that is too large is found in a put before
// the transaction begins, in an update only when it is evaluated.
func TestTransactionItemTooLarge(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	full := str(strings.Repeat("x", 400<<10-len("pk"+"p"+"sk"+"s"+"v")))
	over := str(full.(*types.AttributeValueMemberS).Value + "x")
	wantMessage(t, transact(t, db, putting(item{"pk": str("p"), "sk": str("s"), "v": over}, "")), "Item size has exceeded the maximum allowed size")
	codes, message := canceledFor(t, transact(t, db, updating(key("p", "s"), "SET v = :v", item{":v": over})))
	equal(t, codes, []string{"ValidationError"})
	equal(t, message, "Item size to update has exceeded the maximum allowed size")
	if err := transact(t, db, updating(key("p", "s"), "SET v = :v", item{":v": full})); err != nil {
		t.Error(err)
	}
	if err := transact(t, db, putting(item{"pk": str("p"), "sk": str("s"), "v": full}, "")); err != nil {
		t.Error(err)
	}
}

// TestValueErrorTexts: for invalid values BatchWriteItem and Scan use older
// texts; the texts of PutItem, UpdateItem and DeleteItem begin with a count.
func TestValueErrorTexts(t *testing.T) {
	t.Parallel()
	const number, collection = "The parameter cannot be converted to a numeric value", "One or more parameter values were invalid: Input collection "
	binaries := &types.AttributeValueMemberBS{Value: [][]byte{{0xff}, {0}, {0}}}
	db := open(t, localdynamo.Options{})
	for _, test := range []struct {
		v              types.AttributeValue
		current, older string
	}{
		{num("abc"), number + ": abc", number + ": abc"},
		{num(""), number + ": ", number},
		{&types.AttributeValueMemberNS{Value: []string{"1", ""}}, number + ": ", number},
		{&types.AttributeValueMemberL{Value: []types.AttributeValue{num("1e126")}}, "Number overflow. Attempting to store a number with magnitude larger than supported range", "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{&types.AttributeValueMemberSS{Value: []string{"b", "a", "b", "a"}}, collection + `["a", "b", "b", "a"] contains duplicates.`, collection + "[b, a, b, a] contains duplicates."},
		{&types.AttributeValueMemberNS{Value: []string{"2", "1", "2"}}, collection + "contains duplicates.", "Input collection contains duplicates"},
		{binaries, collection + `["AA==","/w==","AA=="]of type BS contains duplicates.`, collection + "[/w==, AA==, AA==]of type BS contains duplicates."},
	} {
		_, put := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: with(key("p", "s"), "v", test.v)})
		_, remove := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: item{"pk": test.v}})
		_, update := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("p", "s"), UpdateExpression: aws.String("SET v = :v"), ExpressionAttributeValues: item{":v": test.v}})
		_, legacy := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("p", "s"), Expected: map[string]types.ExpectedAttributeValue{"v": {Value: test.v}}})
		_, updates := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("p", "s"), AttributeUpdates: map[string]types.AttributeValueUpdate{"v": {Value: test.v}}})
		for _, err := range []error{put, remove, update, legacy, updates} {
			wantMessage(t, err, "1 validation error detected: "+test.current)
		}
		_, get := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: item{"pk": test.v}})
		_, many := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*things: {Keys: []item{{"pk": test.v}}}}})
		_, query := db.Query(t.Context(), &dynamodb.QueryInput{TableName: things, KeyConditionExpression: aws.String("pk = :v"), ExpressionAttributeValues: item{":v": test.v}})
		_, reads := db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: things, Key: item{"pk": test.v}}}}})
		written := transact(t, db, putting(with(key("p", "s"), "v", test.v), ""))
		updated := transact(t, db, updating(key("p", "s"), "SET v = :v", item{":v": test.v}))
		checked := transact(t, db, checking(key("p", "s"), "v = :v", item{":v": test.v}))
		for _, err := range []error{get, many, query, reads, written, updated, checked} {
			wantMessage(t, err, test.current)
		}
		_, batch := batchWrite(t, db, []types.WriteRequest{{PutRequest: &types.PutRequest{Item: with(key("p", "s"), "v", test.v)}}})
		wantMessage(t, batch, test.older)
		_, scan := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, FilterExpression: aws.String("v = :v"), ExpressionAttributeValues: item{":v": test.v}})
		wantMessage(t, scan, "ExpressionAttributeValues contains invalid value: "+test.older+" for key :v")
	}
}

// TestReturnParameterErrors: all invalid parameters for what a write returns are
// reported together, except by UpdateItem. An empty table name comes first.
func TestReturnParameterErrors(t *testing.T) {
	t.Parallel()
	const capacity = "Value 'BOGUS' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
	const values = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
	const metrics = "Value 'BOGUS' at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]"
	db := open(t, localdynamo.Options{})
	for _, test := range []struct {
		table        string
		put, up, del string
	}{
		{"", "1 validation error detected: Value at 'TableName' failed to satisfy constraint: Member must have length greater than or equal to 1", "", ""},
		{"absent", "3 validation errors detected: " + capacity + "; " + values + "; " + metrics, "1 validation error detected: " + values, "3 validation errors detected: " + capacity + "; " + values + "; " + metrics},
	} {
		_, put := db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &test.table, Item: item{}, ReturnValues: "BOGUS", ReturnConsumedCapacity: "BOGUS", ReturnItemCollectionMetrics: "BOGUS",
		})
		wantMessage(t, put, test.put)
		_, up := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &test.table, Key: item{}, ReturnValues: "BOGUS", ReturnConsumedCapacity: "BOGUS", ReturnItemCollectionMetrics: "BOGUS",
		})
		wantMessage(t, up, cmp.Or(test.up, test.put))
		_, del := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: &test.table, Key: item{}, ReturnValues: "BOGUS", ReturnConsumedCapacity: "BOGUS", ReturnItemCollectionMetrics: "BOGUS",
		})
		wantMessage(t, del, cmp.Or(test.del, test.put))
	}
}

// TestConditionalOperatorErrorTexts: a Query checks its ConditionalOperator
// first. Scan has a different text for an unknown one.
func TestConditionalOperatorErrorTexts(t *testing.T) {
	t.Parallel()
	const words = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"
	null := types.Condition{ComparisonOperator: types.ComparisonOperatorNull}
	filter := map[string]types.Condition{"b": null, "c": null}
	expected := map[string]types.ExpectedAttributeValue{"b": {Exists: aws.Bool(false)}, "c": {Exists: aws.Bool(false)}}
	db := open(t, localdynamo.Options{})
	_, err := db.Query(t.Context(), &dynamodb.QueryInput{TableName: things, QueryFilter: filter, ConditionalOperator: "XOR", Select: "BOGUS"})
	wantMessage(t, err, words)
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("p", "s"), Expected: expected, ConditionalOperator: "XOR"})
	wantMessage(t, err, "1 validation error detected: "+words)
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, ScanFilter: filter, ConditionalOperator: "XOR"})
	wantMessage(t, err, "1 validation error detected: Value 'XOR' at 'conditionalOperator' failed to satisfy constraint: Member must satisfy enum value set: [OR, AND]")
}

// TestBatchGetConstraintErrors: BatchGetItem reports an invalid table name and an
// invalid ReturnConsumedCapacity together.
func TestBatchGetConstraintErrors(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{"bad!name": {Keys: []item{key("p", "s")}}}, ReturnConsumedCapacity: "BOGUS",
	})
	wantInvalid(t, err, "2 validation errors detected: Value '{bad!name}' at 'requestItems' failed")
	wantInvalid(t, err, "; Value 'BOGUS' at 'returnConsumedCapacity' failed")
}
