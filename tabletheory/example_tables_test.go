package tabletheory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// Session has an index and a time to live: the table gets both.
type Session struct {
	ID      string `theorydb:"pk"`
	User    string `theorydb:"index:by-user,pk"`
	Expires int64  `theorydb:"ttl"`
}

// TableName would read an environment variable in a program of yours.
func (Session) TableName() string { return "sessions" }

// A program calls EnsureTable when it starts: it makes the table, adds indexes
// that the model has got since, or does nothing.
func ExampleDB_EnsureTable() {
	api := localdynamo.OpenMemory(localdynamo.Options{})
	defer api.Close()
	db := tabletheory.New(api)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := db.EnsureTable(ctx, Session{}); err != nil {
		log.Fatal(err)
	}
	table, err := db.DescribeTable(ctx, Session{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(*table.TableName, table.TableStatus, *table.GlobalSecondaryIndexes[0].IndexName)
	// Output: sessions ACTIVE by-user
}
