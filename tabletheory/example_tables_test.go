package tabletheory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// Session has an index and a TTL field; the table gets both.
type Session struct {
	ID      string `theorydb:"pk"`
	User    string `theorydb:"index:by-user,pk"`
	Expires int64  `theorydb:"ttl"`
}

// In a real program TableName would read an environment variable.
func (Session) TableName() string { return "sessions" }

// A program calls EnsureTable at startup: it creates the table, adds missing
// indexes, or does nothing.
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
