package localdynamo_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// TestItemCount checks the counts of a table and its indexes after puts, a
// replacement, an update, a deletion and a restart.
func TestItemCount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	opts := localdynamo.Options{NoSync: true, SweepInterval: -1}
	db := openAt(t, path, opts)
	createIndexed(t, db)
	expect := func(items, size, top, recent int64) {
		t.Helper()
		d := describe(t, db, "games")
		got := [...]int64{*d.ItemCount, *d.TableSizeBytes, *d.GlobalSecondaryIndexes[0].ItemCount, *d.LocalSecondaryIndexes[0].ItemCount}
		equal(t, got, [...]int64{items, size, top, recent})
	}
	// player 6+3, game 4+5, name 4+11, note 4+4: 41 bytes with neither
	// score (5+2) nor at (2+2).
	expect(0, 0, 0, 0)
	putGame(t, db, "ann", item{"score": num("1")})
	putGame(t, db, "bob", item{"at": num("1")})
	expect(2, 41+7+41+4, 1, 1)
	putGame(t, db, "bob", item{"at": num("2"), "note": str(strings.Repeat("x", 1004))})
	expect(2, 41+7+41+4+1000, 1, 1)
	bob := item{"player": str("bob"), "game": str("chess")}
	_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("games"), Key: bob, UpdateExpression: aws.String("REMOVE #at, note"),
		ExpressionAttributeNames: map[string]string{"#at": "at"},
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(2, 41+7+33, 1, 0)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path, opts)
	expect(2, 41+7+33, 1, 0)
	for range 2 { // the second finds no item
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("games"), Key: bob}); err != nil {
			t.Fatal(err)
		}
		expect(1, 41+7, 1, 0)
	}
	d, err := deleteTable(t, db, "games")
	if err != nil || *d.ItemCount != 1 {
		t.Errorf("got description %v (error %v)", d, err)
	}
	createIndexed(t, db)
	expect(0, 0, 0, 0)
}

// TestItemCountOfTransactions: all actions of a transaction are counted; the actions of
// a canceled one are not.
func TestItemCountOfTransactions(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, key("a", "old"))
	write := func(condition *string) error {
		_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: things, Item: key("a", "1")}},
			{Put: &types.Put{TableName: things, Item: key("a", "2"), ConditionExpression: condition}},
			{Delete: &types.Delete{TableName: things, Key: key("a", "old")}},
		}})
		return err
	}
	if err := write(aws.String("attribute_exists(pk)")); err == nil {
		t.Fatal("the condition held")
	}
	equal(t, *describe(t, db, "things").ItemCount, int64(1))
	if err := write(nil); err != nil {
		t.Fatal(err)
	}
	equal(t, *describe(t, db, "things").ItemCount, int64(2))
}
