package localdynamo

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// failingBackfill returns a DB with a new index whose backfill fails on the
// table's only item, which is corrupt. repair removes the item.
func failingBackfill(t *testing.T) (db *DB, repair func()) {
	t.Helper()
	db = OpenMemory(Options{SweepInterval: -1})
	define := &dynamodb.CreateTableInput{
		TableName: aws.String("broken"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	}
	_, err := db.CreateTable(t.Context(), define)
	if err != nil {
		t.Fatal(err)
	}
	write := func(apply func(*transaction, string) error) {
		t.Helper()
		err := db.submit(t.Context(), func(tx *transaction) error { return apply(tx, tx.tables["broken"].space()) })
		if err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *transaction, space string) error { return tx.Put(space, []byte("key"), []byte("damaged")) })
	if err := update(t, db, createIndexUpdate("first")); err != nil {
		t.Fatal(err)
	}
	return db, func() {
		t.Helper()
		write(func(tx *transaction, space string) error { return tx.Delete(space, []byte("key")) })
	}
}

func update(t *testing.T, db *DB, updates ...types.GlobalSecondaryIndexUpdate) error {
	t.Helper()
	_, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: aws.String("broken"), GlobalSecondaryIndexUpdates: updates,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("a"), AttributeType: types.ScalarAttributeTypeS}},
	})
	return err
}

func createIndexUpdate(name string) types.GlobalSecondaryIndexUpdate {
	return types.GlobalSecondaryIndexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{
		IndexName:  &name,
		KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("a"), KeyType: types.KeyTypeHash}},
		Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
	}}
}

func deleteIndex(name string) types.GlobalSecondaryIndexUpdate {
	return types.GlobalSecondaryIndexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}
}

func TestBackfillIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, repair := failingBackfill(t)
		defer db.Close()
		backfilling := func() bool { return (*db.tables.Load())["broken"].backfillingIndex() != nil }
		synctest.Wait()
		if !backfilling() {
			t.Fatal("the backfill skipped a corrupt item")
		}
		repair()
		time.Sleep(taskRetry - time.Second)
		synctest.Wait()
		if !backfilling() {
			t.Error("the backfill was retried before taskRetry")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if backfilling() {
			t.Error("the backfill was not retried after taskRetry")
		}
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestTableRefusesChangesDuringBackfill also checks that the index refuses reads.
func TestTableRefusesChangesDuringBackfill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, repair := failingBackfill(t)
		defer db.Close()
		_, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("broken"), IndexName: aws.String("first")})
		if _, refused := validationMessage(err); !refused {
			t.Errorf("read the index: %v", err)
		}
		var busy *types.ResourceInUseException
		if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("broken")}); !errors.As(err, &busy) {
			t.Errorf("delete the table: %v", err)
		}
		if _, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String("broken"), DeletionProtectionEnabled: aws.Bool(true)}); !errors.As(err, &busy) {
			t.Errorf("update the table: %v", err)
		}
		var limit *types.LimitExceededException
		if err := update(t, db, createIndexUpdate("second")); !errors.As(err, &limit) {
			t.Errorf("add another index: %v", err)
		}
		repair()
		if err := update(t, db, deleteIndex("first")); err != nil {
			t.Errorf("delete the index that is being backfilled: %v", err)
		}
		if err := update(t, db, createIndexUpdate("second")); err != nil {
			t.Errorf("add an index afterwards: %v", err)
		}
		time.Sleep(2 * taskRetry)
		synctest.Wait()
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
