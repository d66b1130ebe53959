package main

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// Processors are added while the store commits, and removed once it does not.
func TestKeepProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	defer runtime.SetDefaultGOMAXPROCS()
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer db.Close()
		before := runtime.GOMAXPROCS(0)
		stop := keepProcessors(t.Context(), db)
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%s: %d processors, want %d", when, got, want)
			}
		}
		check("before a commit", before)
		commitTo(t, db, "first")
		check("after a commit", before+committers)
		time.Sleep(commitsLast - time.Nanosecond)
		runtime.GOMAXPROCS(before + 10) // as if the limit of the container were lower now
		commitTo(t, db, "second")
		time.Sleep(time.Nanosecond)
		check("after another", before+committers)
		time.Sleep(commitsLast)
		check("without commits", before)
		commitTo(t, db, "third")
		check("after a third", before+committers)
		stop()
		check("after stop", before)

		t.Setenv("GOMAXPROCS", "1")
		defer keepProcessors(t.Context(), db)()
		commitTo(t, db, "fourth")
		check("with GOMAXPROCS", before)
	})
}

// commitTo creates a table.
func commitTo(t *testing.T, db *localdynamo.DB, name string) {
	t.Helper()
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            &name,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: &name, KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
