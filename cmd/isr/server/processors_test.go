package server

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// Processors are added while the store makes many commits, and removed once it does not.
func TestKeepProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	defer runtime.SetDefaultGOMAXPROCS()
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer db.Close()
		before := runtime.GOMAXPROCS(0)
		stop := KeepProcessors(t.Context(), db)
		tables := 0
		// during makes commits within a period, and checks how many processors there are after it.
		during := func(period string, commits, want int) {
			t.Helper()
			for range commits {
				commitTo(t, db, fmt.Sprint("table", tables))
				tables++
				synctest.Wait()
			}
			time.Sleep(commitPeriod)
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%s: %d processors, want %d", period, got, want)
			}
		}
		during("no commit", 0, before)
		during("few commits", manyCommits, before) // the first one begins the period
		during("many commits", manyCommits+1, before+committers)
		for range limitChecked/commitPeriod - 1 {
			during("as many", manyCommits, before+committers)
		}
		runtime.GOMAXPROCS(before + 10) // as if the limit of the container were lower now
		during("with another limit", manyCommits, before+committers)
		during("no commit again", 0, before)
		during("many commits again", manyCommits+1, before+committers)
		stop()
		during("after stop", 0, before)

		t.Setenv("GOMAXPROCS", "1")
		defer KeepProcessors(t.Context(), db)()
		during("with GOMAXPROCS", manyCommits+1, before)
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
