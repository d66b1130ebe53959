package localdynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func putting25(size int) []types.WriteRequest {
	requests := make([]types.WriteRequest, 25)
	for i := range requests {
		requests[i].PutRequest = &types.PutRequest{Item: item{"pk": str("a"), "sk": str(fmt.Sprintf("%02d", i)), "body": str(strings.Repeat("x", size))}}
	}
	return requests
}

func batchWrite(t *testing.T, db *localdynamo.DB, requests []types.WriteRequest) (*dynamodb.BatchWriteItemOutput, error) {
	t.Helper()
	return db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
		RequestItems:           map[string][]types.WriteRequest{*things: requests},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
}

func TestBatchWrite(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, key("old", "1"))
	requests := putting25(2000)
	requests[24] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("old", "1")}}
	out, err := batchWrite(t, db, requests)
	if err != nil {
		t.Fatal(err)
	}
	if out.UnprocessedItems == nil || len(out.UnprocessedItems) != 0 {
		t.Errorf("unprocessed: %v, want an empty map", out.UnprocessedItems)
	}
	equal(t, aws.ToFloat64(out.ConsumedCapacity[0].CapacityUnits), 49.0) // 24 puts of two units, and a deletion
	if get(t, db, "old", "1") != nil || get(t, db, "a", "23") == nil {
		t.Error("the batch was not applied completely")
	}
}

func TestBatchWriteRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	twice := putting25(1)
	twice[1] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("a", "00")}}
	both := putting25(1)
	both[3].DeleteRequest = &types.DeleteRequest{Key: key("a", "b")}
	large := putting25(1)
	large[24].PutRequest.Item["body"] = str(strings.Repeat("x", 400<<10))
	for _, c := range []struct {
		requests []types.WriteRequest
		words    string
	}{
		{nil, "Value '{things=[]}' at 'requestItems' failed to satisfy constraint"},
		{append(putting25(1), types.WriteRequest{PutRequest: &types.PutRequest{Item: key("z", "z")}}), "less than or equal to 25"},
		{twice, "duplicates"},
		{both, "exactly one of PutRequest and DeleteRequest"},
		{make([]types.WriteRequest, 1), "exactly one of PutRequest and DeleteRequest"},
		{[]types.WriteRequest{{PutRequest: &types.PutRequest{}}}, "'item'"},
		{[]types.WriteRequest{{DeleteRequest: &types.DeleteRequest{}}}, "'key'"},
		{large, "Item size has exceeded"},
	} {
		_, err := batchWrite(t, db, c.requests)
		wantInvalid(t, err, c.words)
	}
	_, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{})
	wantInvalid(t, err, "'RequestItems'")
	if get(t, db, "a", "00") != nil {
		t.Error("a refused batch wrote an item")
	}
}

// TestBatchGet reads more than one response can hold, and continues with the
// unprocessed keys.
func TestBatchGet(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createTable(t, db, "more", types.ScalarAttributeTypeS)
	var keys []item
	for i := range 60 {
		k := key("k", fmt.Sprint(i))
		keys = append(keys, k)
		put(t, db, item{"pk": k["pk"], "sk": k["sk"], "body": str(strings.Repeat("x", 300<<10))})
	}
	keys = append(keys, key("k", "absent"))
	requests := map[string]types.KeysAndAttributes{
		*things: {Keys: keys, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("sk")},
		"more":  {Keys: []item{key("a", "b")}},
	}
	rounds, found := 0, map[string]bool{}
	for len(requests) > 0 {
		out, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: requests, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
		if err != nil {
			t.Fatal(err)
		}
		if rounds == 0 {
			equal(t, len(out.Responses[*things]), 52) // the example in AWS's documentation
			equal(t, aws.ToFloat64(out.ConsumedCapacity[0].CapacityUnits), 0.5)
		}
		for _, it := range out.Responses[*things] {
			equal(t, len(it), 1)
			found[it["sk"].(*types.AttributeValueMemberS).Value] = true
		}
		if out.UnprocessedKeys == nil {
			t.Fatal("UnprocessedKeys is absent")
		}
		requests = out.UnprocessedKeys
		rounds++
	}
	if rounds != 2 || len(found) != 60 {
		t.Errorf("%d items in %d rounds, want 60 in 2", len(found), rounds)
	}
}

func TestBatchGetRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	many := make([]item, 101)
	for i := range many {
		many[i] = key("a", fmt.Sprint(i))
	}
	for _, c := range []struct {
		keys  []item
		words string
	}{
		{nil, "'RequestItems.things.member.Keys' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{many, "less than or equal to 100"},
		{[]item{key("a", "b"), key("a", "b")}, "duplicates"},
		{[]item{{"pk": str("a")}}, "does not match the schema"},
		{[]item{nil}, "'key'"},
	} {
		_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*things: {Keys: c.keys}}})
		wantInvalid(t, err, c.words)
	}
	_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{})
	wantInvalid(t, err, "'RequestItems'")
}

func TestTransactGet(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, item{"pk": str("a"), "sk": str("1"), "x": num("1"), "y": num("2")})
	read := func(gets ...types.Get) (*dynamodb.TransactGetItemsOutput, error) {
		in := &dynamodb.TransactGetItemsInput{ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal}
		for _, g := range gets {
			g.TableName = things
			in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &g})
		}
		return db.TransactGetItems(t.Context(), in)
	}
	out, err := read(types.Get{Key: key("a", "absent")}, types.Get{Key: key("a", "1"), ProjectionExpression: aws.String("x")})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(out.Responses), 2)
	equal(t, out.Responses[0].Item == nil, true)
	equal(t, out.Responses[1].Item, item{"x": num("1")})
	equal(t, aws.ToFloat64(out.ConsumedCapacity[0].ReadCapacityUnits), 4.0)

	_, err = read(types.Get{Key: key("a", "1")}, types.Get{Key: key("a", "1")})
	wantInvalid(t, err, "multiple operations on one item")
	_, err = read()
	wantInvalid(t, err, "'TransactItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	var canceled *types.TransactionCanceledException
	if _, err = read(types.Get{Key: key("a", "1")}, types.Get{Key: item{"pk": str("a")}}); !errors.As(err, &canceled) {
		t.Fatalf("got %v", err)
	}
	equal(t, aws.ToString(canceled.CancellationReasons[1].Code), "ValidationError")
	_, err = db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: make([]types.TransactGetItem, 1)})
	wantInvalid(t, err, "get")
}

func TestTransactGetSize(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := &dynamodb.TransactGetItemsInput{}
	for i := range 11 {
		k := key("k", fmt.Sprint(i))
		put(t, db, item{"pk": k["pk"], "sk": k["sk"], "body": str(strings.Repeat("x", 399<<10))})
		in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: things, Key: k}})
	}
	_, err := db.TransactGetItems(t.Context(), in)
	wantInvalid(t, err, "4MB")
}
