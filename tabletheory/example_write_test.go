package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// Document is edited by several people.
type Document struct {
	Path    string `theorydb:"pk"`
	Text    string
	Editors []string `theorydb:"set,omitempty"`
	Views   int64
	Version int64     `theorydb:"version"`
	Updated time.Time `theorydb:"updated_at"`
}

// In a real program TableName would read an environment variable.
func (Document) TableName() string { return "documents" }

// documents returns a table with one document.
func documents(ctx context.Context) (db *tabletheory.DB, closeTable func() error) {
	api := localdynamo.OpenMemory(localdynamo.Options{})
	db = tabletheory.New(api).WithContext(ctx)
	if err := db.EnsureTable(ctx, Document{}); err != nil {
		log.Fatal(err)
	}
	if err := db.Model(&Document{Path: "/tea", Text: "Tea is hot."}).Create(); err != nil {
		log.Fatal(err)
	}
	return db, api.Close
}

// Create an item that must not exist, and read the existing item if it does.
func ExampleDB_Model_create() {
	db, closeTable := documents(context.Background())
	defer closeTable()

	err := db.Model(&Document{Path: "/tea", Text: "Tea is cold."}).Create()
	if failed, ok := errors.AsType[*tabletheory.ConditionError](err); ok {
		var there Document
		if err := failed.Decode(&there); err != nil {
			log.Fatal(err)
		}
		fmt.Println("there is already:", there.Text)
	}
	// Output:
	// there is already: Tea is hot.
}

// Update an item with optimistic locking: a writer with an outdated version must
// read again.
func ExampleDB_Model_version() {
	db, closeTable := documents(context.Background())
	defer closeTable()
	read := func() *Document {
		var d Document
		if err := db.Model(Document{}).Where("Path", "=", "/tea").First(&d); err != nil {
			log.Fatal(err)
		}
		return &d
	}

	mine, theirs := read(), read()
	theirs.Text = "Tea is green."
	fmt.Println(db.Model(theirs).Update("Text"), theirs.Version)

	mine.Text = "Tea is black."
	err := db.Model(mine).Update("Text")
	fmt.Println(errors.Is(err, tabletheory.ErrVersionConflict), mine.Version)
	// Output:
	// <nil> 2
	// true 1
}

// Change single attributes without reading the item.
func ExampleDB_Model_updateBuilder() {
	db, closeTable := documents(context.Background())
	defer closeTable()

	var now Document
	err := db.Model(Document{Path: "/tea"}).UpdateBuilder().
		Increment("Views").
		Add("Editors", []string{"ann"}).
		Condition("Views", "<", 1000).
		ExecuteWithResult(&now)
	if err != nil { // errors.Is(err, tabletheory.ErrConditionFailed) after 1000 views
		log.Fatal(err)
	}
	fmt.Println(now.Views, now.Editors, now.Text)
	// Output:
	// 1 [ann] Tea is hot.
}

// Rename a document: create the new item and delete the old one, or neither.
func ExampleDB_TransactWrite() {
	db, closeTable := documents(context.Background())
	defer closeTable()

	rename := func(from, to string) error {
		return db.TransactWrite(context.Background(), func(tx *tabletheory.TransactionBuilder) error {
			tx.Create(&Document{Path: to, Text: "Tea is hot."}).Label("new")
			tx.Delete(Document{Path: from}, tabletheory.AtVersion(1)).Label("old")
			return nil
		})
	}
	fmt.Println(rename("/tea", "/chai"))

	err := rename("/tea", "/matcha")
	if failed, ok := errors.AsType[*tabletheory.TransactionError](err); ok {
		old, _ := failed.Reason("old")
		fmt.Println(old.ConditionFailed(), old.Kind, old.Code)
	}
	// Output:
	// <nil>
	// true delete ConditionalCheckFailed
}

// Write many items without atomicity.
func ExampleDB_Model_batchWrite() {
	db, closeTable := documents(context.Background())
	defer closeTable()

	drafts := make([]Document, 60)
	for i := range drafts {
		drafts[i].Path = fmt.Sprintf("/draft/%d", i)
	}
	err := db.Model(Document{}).BatchCreate(drafts)
	if failed, ok := errors.AsType[*tabletheory.BatchError](err); ok {
		fmt.Println("still to write:", failed.Left)
	}
	err = errors.Join(err, db.Model(Document{}).BatchDelete([]any{"/draft/0", "/draft/1"}))
	var all []Document
	err = errors.Join(err, db.Model(Document{}).Scan(&all))
	fmt.Println(len(all), err)
	// Output:
	// 59 <nil>
}
