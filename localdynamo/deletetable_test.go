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

// TestDeleteTable: items and index entries are deleted with the table. A new
// table of the same name has none of them, even after a restart.
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
		t.Errorf("status %v, indexes %v, %v; want DELETING and no indexes", d.TableStatus, d.GlobalSecondaryIndexes, d.LocalSecondaryIndexes)
	}
	if d.AttributeDefinitions != nil || d.KeySchema != nil || d.CreationDateTime != nil {
		t.Errorf("got %v, %v, %v; want no schema and no creation time", d.AttributeDefinitions, d.KeySchema, d.CreationDateTime)
	}
	if *d.TableName != "games" || *d.ItemCount != 1 || *d.TableId != *id || d.TableArn == nil || d.ProvisionedThroughput == nil {
		t.Errorf("got %+v", d)
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
		t.Errorf("the table ID %s was reused", *id)
	}
	if n := len(queryGames(t, db, topOfChess()).Items); n != 0 {
		t.Errorf("the index of the new table has %d entries", n)
	}
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("games")})
	if err != nil || len(out.Items) != 0 {
		t.Errorf("the new table has %v (error %v)", out.Items, err)
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

// TestDeleteTableDuringWrites: concurrent writes succeed before the deletion or
// get a ResourceNotFoundException after it, and leave nothing behind.
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

// TestSDKWaiters: the SDK's waiters work with the engine.
func TestSDKWaiters(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := &dynamodb.DescribeTableInput{TableName: things}
	if err := dynamodb.NewTableExistsWaiter(db).Wait(t.Context(), in, time.Minute); err != nil {
		t.Errorf("wait for an existing table: %v", err)
	}
	if _, err := deleteTable(t, db, "things"); err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableNotExistsWaiter(db).Wait(t.Context(), in, time.Minute); err != nil {
		t.Errorf("wait for the deletion of an absent table: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dynamodb.NewTableExistsWaiter(db).Wait(ctx, in, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("wait for an absent table with a canceled context: %v", err)
	}
}

// TestDeleteTableDuringReads: a reader finds the item or no table, never an empty
// table.
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
						t.Error("a reader found the table without its item")
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
