package localdynamo_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func transact(t *testing.T, db *localdynamo.DB, actions ...types.TransactWriteItem) error {
	t.Helper()
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	return err
}

func putting(it item, condition string) types.TransactWriteItem {
	p := &types.Put{TableName: things, Item: it}
	if condition != "" {
		p.ConditionExpression = &condition
		p.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	return types.TransactWriteItem{Put: p}
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, item{"pk": str("lock"), "sk": str("l"), "token": str("mine")})
	put(t, db, item{"pk": str("meta"), "sk": str("m"), "v": num("1")})
	deleteLock := func(token string) types.TransactWriteItem {
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: things, Key: key("lock", "l"), ConditionExpression: aws.String("#t = :t"),
			ExpressionAttributeNames: map[string]string{"#t": "token"}, ExpressionAttributeValues: item{":t": str(token)},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}
	}
	bump := types.TransactWriteItem{Update: &types.Update{
		TableName: things, Key: key("meta", "m"), UpdateExpression: aws.String("SET v = v + :one"), ConditionExpression: aws.String("v = :one"),
		ExpressionAttributeValues: item{":one": num("1")},
	}}
	there := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: things, Key: key("meta", "x"), ConditionExpression: aws.String("attribute_not_exists(pk)")}}

	err := transact(t, db, bump, deleteLock("other"), there)
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		t.Fatal(err)
	}
	var codes []string
	for _, r := range canceled.CancellationReasons {
		codes = append(codes, *r.Code)
	}
	equal(t, codes, []string{"None", "ConditionalCheckFailed", "None"})
	equal(t, canceled.CancellationReasons[1].Item["token"], str("mine"))
	equal(t, get(t, db, "meta", "m")["v"], num("1"))

	if err := transact(t, db, bump, deleteLock("mine"), there, putting(key("ver", "1"), "attribute_not_exists(pk)")); err != nil {
		t.Fatal(err)
	}
	equal(t, get(t, db, "meta", "m")["v"], num("2"))
	equal(t, get(t, db, "lock", "l"), item(nil))
	equal(t, get(t, db, "ver", "1"), key("ver", "1"))
}

func TestTransactionValidation(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	never := "attribute_exists(pk)"
	wantInvalid(t, transact(t, db), "TransactItems")
	wantInvalid(t, transact(t, db, types.TransactWriteItem{}), "should contain Delete or Put")
	both := putting(key("a", "b"), "")
	both.Delete = &types.Delete{TableName: things, Key: key("a", "c")}
	wantInvalid(t, transact(t, db, both), "only contain one of")
	wantInvalid(t, transact(t, db, putting(key("a", "b"), never), putting(key("a", "b"), "")), "multiple operations on one item")
	wantInvalid(t, transact(t, db, putting(key("a", "b"), "pk =")), "Syntax error")
	many := make([]types.TransactWriteItem, 101)
	for i := range many {
		many[i] = putting(key("a", strconv.Itoa(i)), "")
	}
	wantInvalid(t, transact(t, db, many...), "100")
	if err := transact(t, db, many[:100]...); err != nil {
		t.Error(err)
	}
	var large []types.TransactWriteItem
	for i := range 11 {
		large = append(large, putting(item{"pk": str("large"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 400_000))}, ""))
	}
	wantInvalid(t, transact(t, db, large...), "4MB")
	if err := transact(t, db, large[:10]...); err != nil {
		t.Error(err)
	}
	// An update that is invalid for the stored item cancels, like a failed condition.
	err := transact(t, db, putting(key("z", "z"), ""), types.TransactWriteItem{Update: &types.Update{
		TableName: things, Key: key("a", "x"), UpdateExpression: aws.String("SET a.b = :v"), ExpressionAttributeValues: item{":v": num("1")},
	}})
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) || *canceled.CancellationReasons[1].Code != "ValidationError" {
		t.Error(err)
	}
	equal(t, get(t, db, "z", "z"), item(nil))
}

func TestRequestToken(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, Now: clock, SweepInterval: -1})
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	send := func(token, delta string) (*dynamodb.TransactWriteItemsOutput, error) {
		return db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
			TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: things, Key: key("a", "b"), UpdateExpression: aws.String("ADD n :d"), ExpressionAttributeValues: item{":d": num(delta)},
			}}},
		})
	}
	must := func(token, delta, want string) *dynamodb.TransactWriteItemsOutput {
		t.Helper()
		out, err := send(token, delta)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, get(t, db, "a", "b")["n"], num(want))
		return out
	}
	first := must("one", "1", "1")
	equal(t, *first.ConsumedCapacity[0].WriteCapacityUnits, 2.0)
	again := must("one", "1.0", "1") // the same numbers in another spelling
	equal(t, *again.ConsumedCapacity[0].ReadCapacityUnits, 2.0)
	equal(t, again.ConsumedCapacity[0].WriteCapacityUnits, (*float64)(nil))
	var mismatch *types.IdempotentParameterMismatchException
	if _, err := send("one", "2"); !errors.As(err, &mismatch) {
		t.Fatal(err)
	}
	must("two", "1", "2")

	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path, localdynamo.Options{NoSync: true, Now: clock, SweepInterval: -1})
	now = now.Add(10*time.Minute - time.Millisecond)
	must("one", "1", "2")
	now = now.Add(time.Millisecond)
	must("one", "2", "4") // the token has expired
	must("one", "2", "4")
	now = now.Add(time.Hour)
	for i := range 10 {
		must("later"+strconv.Itoa(i), "1", strconv.Itoa(5+i))
	}
	_, err := send(strings.Repeat("x", 37), "1")
	wantInvalid(t, err, "ClientRequestToken")
}
