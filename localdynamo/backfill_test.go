package localdynamo_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// addIndexByColor adds a global index with the hash key color, of type S.
func addIndexByColor(t *testing.T, db *localdynamo.DB) (*types.TableDescription, error) {
	t.Helper()
	return updateTable(t, db, &dynamodb.UpdateTableInput{
		GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("color")}, AttributeDefinitions: defs("color"),
	})
}

func putColor(t testing.TB, db *localdynamo.DB, n int, color types.AttributeValue) {
	t.Helper()
	put(t, db, item{"pk": str("p"), "sk": str(fmt.Sprintf("%06d", n)), "color": color})
}

// countColor counts the items with this color in the index.
func countColor(t *testing.T, db *localdynamo.DB, color string) (n int) {
	t.Helper()
	in := &dynamodb.QueryInput{
		TableName: things, IndexName: aws.String("by-color"), Select: types.SelectCount,
		KeyConditionExpression: aws.String("color = :c"), ExpressionAttributeValues: item{":c": str(color)},
	}
	for {
		out, err := db.Query(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		n += int(out.Count)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return n
		}
	}
}

// TestBackfill adds an index to a table with items. It runs in a synctest bubble:
// the backfill is complete when all goroutines block.
func TestBackfill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer db.Close()
		createTable(t, db, "things", types.ScalarAttributeTypeS)
		for n := range 1000 {
			putColor(t, db, n, str([]string{"red", "blue"}[n%2]))
		}
		putColor(t, db, 1000, num("7"))                       // cannot be an index key
		putColor(t, db, 1001, str(strings.Repeat("x", 2049))) // too long for an index key
		put(t, db, key("p", "no color"))
		d, err := addIndexByColor(t, db)
		if err != nil {
			t.Fatal(err)
		}
		added := d.GlobalSecondaryIndexes[0]
		if d.TableStatus != types.TableStatusUpdating || added.IndexStatus != types.IndexStatusCreating || !aws.ToBool(added.Backfilling) {
			t.Errorf("before the backfill: table %v, index %v, backfilling %v", d.TableStatus, added.IndexStatus, aws.ToBool(added.Backfilling))
		}
		synctest.Wait()
		d = describe(t, db, "things")
		added = d.GlobalSecondaryIndexes[0]
		if d.TableStatus != types.TableStatusActive || added.IndexStatus != types.IndexStatusActive || added.Backfilling != nil {
			t.Errorf("after the backfill: table %v, index %v, backfilling %v", d.TableStatus, added.IndexStatus, added.Backfilling)
		}
		equal(t, [...]int{countColor(t, db, "red"), countColor(t, db, "blue")}, [...]int{500, 500})
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBackfillResumesAfterRestart closes the DB right after an index was added,
// and again during the backfill.
func TestBackfillResumesAfterRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	opts := localdynamo.Options{NoSync: true, SweepInterval: -1}
	db := openAt(t, path, opts)
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	const items = 3000
	for n := 0; n < items; n += 25 {
		var batch []types.WriteRequest
		for i := range 25 {
			batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"pk": str("p"), "sk": str(fmt.Sprint(n + i)), "color": str("red")}}})
		}
		if _, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"things": batch}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := addIndexByColor(t, db); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Fatal(err)
		}
		db = openAt(t, path, opts)
	}
	waitUntilActive(t, db)
	equal(t, countColor(t, db, "red"), items)
}

// waitUntilActive returns when no index is being backfilled.
func waitUntilActive(t *testing.T, db *localdynamo.DB) {
	t.Helper()
	for describe(t, db, "things").TableStatus != types.TableStatusActive {
		put(t, db, key("until", "active")) // waits for the writer, which also backfills
	}
}

// TestWritesDuringBackfill changes, adds and removes items during a backfill.
// Index and items must agree at the end, and whenever Check runs.
func TestWritesDuringBackfill(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	const items = 2000
	for n := range items {
		putColor(t, db, n, str("red"))
	}
	change := func(n int) (err error) {
		it := key("p", fmt.Sprintf("%06d", n))
		switch n % 3 {
		case 0:
			it["color"] = str("blue")
			_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it})
		case 1:
			_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: it})
		}
		return err
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := w; n < items; n += 4 {
				if err := change(n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := addIndexByColor(t, db); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	writers.Wait()
	waitUntilActive(t, db)
	equal(t, [...]int{countColor(t, db, "red"), countColor(t, db, "blue")}, [...]int{666, 667})
}

// TestDeleteIndex: deleting an index deletes its entries, and its key attribute
// may have any type afterwards.
func TestDeleteIndex(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	putGame(t, db, "ann", item{"score": num("1")})
	drop := func(name string) error {
		_, err := updateTable(t, db, &dynamodb.UpdateTableInput{TableName: aws.String("games"), GlobalSecondaryIndexUpdates: []indexUpdate{dropIndex(name)}})
		return err
	}
	wantNotFound(t, drop("recent")) // a local index cannot be deleted
	if err := drop("top"); err != nil {
		t.Fatal(err)
	}
	putGame(t, db, "bob", item{"score": str("any type")})
	in := topOfChess()
	in.TableName = aws.String("games")
	_, err := db.Query(t.Context(), in)
	wantInvalid(t, err, "does not have the specified index")
	equal(t, len(describe(t, db, "games").AttributeDefinitions), 3)
}
