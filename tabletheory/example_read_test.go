package tabletheory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// Visit is a visit to a page.
type Visit struct {
	Page    string `theorydb:"pk"`
	At      int64  `theorydb:"sk"` // epoch seconds
	Visitor string
	Seconds int64
}

// In a real program TableName would read an environment variable.
func (Visit) TableName() string { return "visits" }

// visits returns a table with six visits to a page, ten seconds apart.
func visits(ctx context.Context) (db *tabletheory.DB, closeTable func() error) {
	api := localdynamo.OpenMemory(localdynamo.Options{})
	db = tabletheory.New(api).WithContext(ctx)
	if err := db.EnsureTable(ctx, Visit{}); err != nil {
		log.Fatal(err)
	}
	for i, visitor := range []string{"ann", "bob", "ann", "eve", "bob", "ann"} {
		visit := Visit{Page: "/tea", At: 1700000000 + 10*int64(i), Visitor: visitor, Seconds: int64(i)}
		if err := db.Model(&visit).Create(); err != nil {
			log.Fatal(err)
		}
	}
	return db, api.Close
}

// Read one item, and the items of a partition that match a sort key condition
// and a filter.
func ExampleDB_Model_read() {
	db, closeTable := visits(context.Background())
	defer closeTable()

	var first Visit
	err := db.Model(Visit{}).Where("Page", "=", "/tea").Where("At", "=", 1700000000).First(&first)
	if err != nil { // errors.Is(err, tabletheory.ErrItemNotFound) if there is none
		log.Fatal(err)
	}
	fmt.Println(first.Visitor)

	var late []Visit
	err = db.Model(Visit{}).
		Where("Page", "=", "/tea").Where("At", ">=", 1700000020).
		Filter("Visitor", "IN", []string{"ann", "bob"}).
		OrderBy("At", "DESC").
		All(&late)
	if err != nil {
		log.Fatal(err)
	}
	for _, visit := range late {
		fmt.Println(visit.Visitor, visit.At)
	}
	// Output:
	// ann
	// ann 1700000050
	// bob 1700000040
	// ann 1700000020
}

// Read page by page, as for a list on a web page: send the cursor with a page
// and receive it with the request for the next one.
func ExampleDB_Model_pages() {
	db, closeTable := visits(context.Background())
	defer closeTable()

	cursor := ""
	for {
		var visits []Visit
		page, err := db.Model(Visit{}).Where("Page", "=", "/tea").Limit(4).Cursor(cursor).AllPaginated(&visits)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(visits), "visits, more:", page.HasMore)
		if cursor = page.NextCursor; !page.HasMore {
			break
		}
	}
	// Output:
	// 4 visits, more: true
	// 2 visits, more: false
}

// Query with the generic API, which fetches pages as the loop consumes them.
func ExampleTable_Query() {
	ctx := context.Background()
	db, closeTable := visits(ctx)
	defer closeTable()
	table, err := tabletheory.NewTable[Visit](db)
	if err != nil {
		log.Fatal(err)
	}

	for visit, err := range table.Query(ctx, func(q *tabletheory.Query) { q.Where("Page", "=", "/tea").Filter("Visitor", "<>", "ann") }) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(visit.Visitor, visit.Seconds)
	}
	// Output:
	// bob 1
	// eve 3
	// bob 4
}

// Change a single item conditionally, and read the result.
func ExampleTable_Update() {
	ctx := context.Background()
	db, closeTable := visits(ctx)
	defer closeTable()
	table, err := tabletheory.NewTable[Visit](db)
	if err != nil {
		log.Fatal(err)
	}

	visit, err := table.Update(ctx, Visit{Page: "/tea", At: 1700000000},
		func(u *tabletheory.UpdateBuilder) { u.Add("Seconds", 25) },
		tabletheory.IfExists())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(visit.Visitor, visit.Seconds)
	// Output: ann 25
}

// Read several items as a consistent snapshot.
func ExampleDB_TransactGet() {
	ctx := context.Background()
	db, closeTable := visits(ctx)
	defer closeTable()

	first, last := Visit{Page: "/tea", At: 1700000000}, Visit{Page: "/tea", At: 1700009999}
	var hasFirst, hasLast bool
	err := db.TransactGet(ctx, func(tx *tabletheory.TransactionReader) error {
		tx.Get(&first, &hasFirst).Get(&last, &hasLast)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hasFirst, first.Visitor, hasLast)
	// Output: true ann false
}

// Read many items by their keys, in order.
func ExampleDB_Model_batch() {
	db, closeTable := visits(context.Background())
	defer closeTable()

	keys := []any{Visit{Page: "/tea", At: 1700000030}, Visit{Page: "/tea", At: 1}, Visit{Page: "/tea", At: 1700000010}}
	var found []Visit
	if err := db.Model(Visit{}).BatchGet(keys, &found); err != nil {
		log.Fatal(err)
	}
	for _, visit := range found {
		fmt.Println(visit.Visitor)
	}
	// Output:
	// eve
	// bob
}
