package localdynamo_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func deleteTable(t *testing.T, db *localdynamo.DB, name string) (*types.TableDescription, error) {
	t.Helper()
	out, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name})
	if err != nil {
		return nil, err
	}
	return out.TableDescription, nil
}

// TestDeleteTable: a table goes with its items and its indexes, and one that
// is made in its name has none of them, after a restart too.
func TestDeleteTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createIndexed(t, db)
	putGame(t, db, "ann", item{"score": num("1"), "at": num("2")})
	id := describe(t, db, "games").TableId
	d, err := deleteTable(t, db, "games")
	if err != nil {
		t.Fatal(err)
	}
	if d.TableStatus != types.TableStatusDeleting || d.GlobalSecondaryIndexes != nil || d.LocalSecondaryIndexes != nil {
		t.Errorf("described as %v with indexes %v, %v", d.TableStatus, d.GlobalSecondaryIndexes, d.LocalSecondaryIndexes)
	}
	if d.AttributeDefinitions != nil || d.KeySchema != nil || d.CreationDateTime != nil {
		t.Errorf("described with %v, %v, %v", d.AttributeDefinitions, d.KeySchema, d.CreationDateTime)
	}
	if *d.TableName != "games" || *d.ItemCount != 1 || *d.TableId != *id || d.TableArn == nil || d.ProvisionedThroughput == nil {
		t.Errorf("described as %+v", d)
	}
	_, err = deleteTable(t, db, "games")
	wantNotFound(t, err)
	_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("games"), Key: item{"player": str("ann"), "game": str("chess")}})
	wantNotFound(t, err)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createIndexed(t, db)
	if again := describe(t, db, "games").TableId; *again == *id {
		t.Errorf("the ID %s has come back", *id)
	}
	if n := len(queryGames(t, db, topOfChess()).Items); n != 0 {
		t.Errorf("%d entries in the index of a new table", n)
	}
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("games")})
	if err != nil || len(out.Items) != 0 {
		t.Errorf("%v, %v in a new table", out.Items, err)
	}
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	protect := func(on bool) {
		t.Helper()
		if _, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: things, DeletionProtectionEnabled: &on}); err != nil {
			t.Fatal(err)
		}
		equal(t, *describe(t, db, "things").DeletionProtectionEnabled, on)
	}
	protect(true)
	_, err := deleteTable(t, db, "things")
	wantInvalid(t, err, "protected against deletion")
	put(t, db, key("still", "there"))
	protect(false)
	if _, err := deleteTable(t, db, "things"); err != nil {
		t.Error(err)
	}
}

// TestDeleteTableAmongWriters: writers of a table that is deleted meanwhile
// either wrote before, or find no table; and none of what they wrote is left.
func TestDeleteTableDuringWrites(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	var writers sync.WaitGroup
	ctx := t.Context()
	started := make(chan struct{}, 8)
	for range cap(started) {
		writers.Go(func() {
			for n := 0; ; n++ {
				_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: things, Item: key("a", "b")})
				if n == 0 {
					started <- struct{}{}
				}
				if err != nil {
					wantNotFound(t, err)
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if _, err := deleteTable(t, db, "things"); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	equal(t, get(t, db, "a", "b"), item(nil))
}

// TestWaiters: the SDK's own waiters work on the engine.
func TestSDKWaiters(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := &dynamodb.DescribeTableInput{TableName: things}
	if err := dynamodb.NewTableExistsWaiter(db).Wait(t.Context(), in, time.Minute); err != nil {
		t.Errorf("of a table that exists: %v", err)
	}
	if _, err := deleteTable(t, db, "things"); err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableNotExistsWaiter(db).Wait(t.Context(), in, time.Minute); err != nil {
		t.Errorf("of a table that does not: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dynamodb.NewTableExistsWaiter(db).Wait(ctx, in, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("of a table that does not exist, canceled: %v", err)
	}
}

// TestDeleteTableAmongReaders: a reader finds the item or no table, never a
// table without the item.
func TestDeleteTableDuringReads(t *testing.T) {
	t.Parallel()
	db := localdynamo.OpenMemory(localdynamo.Options{})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 100 {
		createTable(t, db, "brief", types.ScalarAttributeTypeS)
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("brief"), Item: key("a", "b")}); err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("brief"), Key: key("a", "b")})
					var absent *types.ResourceNotFoundException
					switch {
					case errors.As(err, &absent):
						return
					case err != nil:
						t.Error(err)
						return
					case out.Item == nil:
						t.Error("the table is there, but not its item")
						return
					}
				}
			})
		}
		if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("brief")}); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
	}
}
