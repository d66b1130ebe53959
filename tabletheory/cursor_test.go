package tabletheory_test

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
)

func TestPagination(t *testing.T) {
	t.Parallel()
	engineCases(t, map[string]func(*tabletheory.Query) *tabletheory.Query{
		"of the table": func(q *tabletheory.Query) *tabletheory.Query { return q.Where("Customer", "=", "ann") },
		"backwards": func(q *tabletheory.Query) *tabletheory.Query {
			return q.Where("Customer", "=", "ann").OrderBy("Number", "DESC")
		},
		"of a local index": func(q *tabletheory.Query) *tabletheory.Query {
			return q.Index("by-total").Where("Customer", "=", "ann")
		},
		"of a global index": func(q *tabletheory.Query) *tabletheory.Query {
			return q.Index("by-status").Where("Status", "=", "open")
		},
		"filtered": func(q *tabletheory.Query) *tabletheory.Query {
			return q.Where("Customer", "=", "ann").Filter("Status", "=", "open")
		},
	}, func(t *testing.T, api *dynamodb.Client, build func(*tabletheory.Query) *tabletheory.Query) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 11)
		db := tabletheory.New(api)
		var all, paged []Order
		check(t, build(db.Model(Order{})).All(&all))
		cursor, scanned := "", 0
		for {
			var items []Order
			page, err := build(db.Model(Order{})).Limit(3).Cursor(cursor).AllPaginated(&items)
			check(t, err)
			if page.Count != len(items) || page.Count > 3 || page.ScannedCount > 3 || page.HasMore != (page.NextCursor != "") {
				t.Fatalf("page %+v has %d items, want at most 3 evaluated", page, len(items))
			}
			if url.QueryEscape(page.NextCursor) != page.NextCursor {
				t.Errorf("the cursor %q is not safe in a URL", page.NextCursor)
			}
			paged = append(paged, items...)
			scanned += page.ScannedCount
			if cursor = page.NextCursor; !page.HasMore {
				break
			}
		}
		same(t, paged, all)
		if scanned < len(all) {
			t.Errorf("%d items were evaluated, want at least %d", scanned, len(all))
		}
	})
}

func TestReadsContinueFromACursor(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 5)
		db := tabletheory.New(api)
		query := func() *tabletheory.Query { return db.Model(Order{}).Where("Customer", "=", "ann") }
		var items []Order
		page, err := query().Limit(2).AllPaginated(&items)
		check(t, err)
		check(t, query().Cursor(page.NextCursor).Limit(2).All(&items))
		same(t, items, orders("ann", 3, 4))
		var first Order
		check(t, query().Cursor(page.NextCursor).First(&first))
		same(t, first, orderOf("ann", 3))
		count, err := query().Cursor(page.NextCursor).Count()
		check(t, err)
		if count != 3 {
			t.Errorf("%d orders after the cursor, want 3", count)
		}
	})
}

// cursors returns the cursor after the first item of each query.
func cursors(t *testing.T, db *tabletheory.DB, queries map[string]*tabletheory.Query) map[string]string {
	t.Helper()
	made := map[string]string{}
	for name, query := range queries {
		var items []Order
		page, err := query.Limit(1).AllPaginated(&items)
		check(t, err)
		if page.NextCursor == "" {
			t.Fatalf("%s has no cursor", name)
		}
		made[name] = page.NextCursor
	}
	return made
}

// tabledOrder is the key of an [Order] in any table.
type tabledOrder struct {
	Customer string `theorydb:"pk"`
	Number   int64  `theorydb:"sk"`

	table string
}

func (o tabledOrder) TableName() string { return o.table }

func TestCursorIsBoundToItsQuery(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 9)
		seedOrders(t, api, "bob", 9)
		db := tabletheory.New(api)
		queries := func() map[string]*tabletheory.Query {
			return map[string]*tabletheory.Query{
				"ann":       db.Model(Order{}).Where("Customer", "=", "ann"),
				"bob":       db.Model(Order{}).Where("Customer", "=", "bob"),
				"backwards": db.Model(Order{}).Where("Customer", "=", "ann").OrderBy("Number", "DESC"),
				"totals":    db.Model(Order{}).Index("by-total").Where("Customer", "=", "ann"),
				"open":      db.Model(Order{}).Index("by-status").Where("Status", "=", "open"),
				"shipped":   db.Model(Order{}).Index("by-status").Where("Status", "=", "shipped"),
			}
		}
		for of, cursor := range cursors(t, db, queries()) {
			for name, query := range queries() {
				var items []Order
				_, err := query.Cursor(cursor).AllPaginated(&items)
				if of == name {
					check(t, err)
					continue
				}
				if !errors.Is(err, tabletheory.ErrInvalidQuery) || items != nil {
					t.Errorf("cursor of %s with the query of %s: got %v and %d items, want an ErrInvalidQuery", of, name, err, len(items))
				}
			}
		}

		in := func(table string) *tabletheory.Query {
			return db.Model(tabledOrder{table: table}).Where("Customer", "=", "ann")
		}
		var found []tabledOrder
		page, err := in("orders").Limit(1).AllPaginated(&found)
		check(t, err)
		_, err = in("orders").Cursor(page.NextCursor).AllPaginated(&found)
		check(t, err)
		_, err = in("other-orders").Cursor(page.NextCursor).AllPaginated(&found)
		if !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Errorf("cursor of another table: got %v, want an ErrInvalidQuery", err)
		}

		cursor := cursors(t, db, map[string]*tabletheory.Query{"ann": db.Model(Order{}).Where("Customer", "=", "ann")})["ann"]
		cacheTable(t, api)
		var rows []FaceTheoryCacheMetadata
		_, err = db.Model(FaceTheoryCacheMetadata{}).Where("PK", "=", "ann").Cursor(cursor).AllPaginated(&rows)
		if !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Errorf("cursor of another model: got %v, want an ErrInvalidQuery", err)
		}
	})
}

// DynamoDB refuses positions that the sort key condition excludes.
func TestCursorOutsideTheSortKeyRange(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 9)
		db := tabletheory.New(api)
		var items []Order
		page, err := db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", ">", 2).Limit(2).AllPaginated(&items)
		check(t, err)
		_, err = db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", ">", 6).Cursor(page.NextCursor).AllPaginated(&items)
		if !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Errorf("got error %v, want an ErrInvalidQuery", err)
		}
	})
}

// Different spellings of a number are one partition.
func TestCursorOfANumericPartition(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		createTable(t, api, "TABLETHEORY_READINGS", &dynamodb.CreateTableInput{
			KeySchema: keySchema("sensor", "at"), AttributeDefinitions: definitions("sensor", "N", "at", "B"),
		})
		db := tabletheory.New(api)
		for at := range byte(3) {
			putRaw(t, api, Reading{}.TableName(), attrs{"sensor": num("100"), "at": binary(at)})
		}
		var got []Reading
		page, err := db.Model(Reading{}).Where("Sensor", "=", 100).Limit(1).AllPaginated(&got)
		check(t, err)
		_, err = db.Model(Reading{}).Where("Sensor", "=", 1e2).Cursor(page.NextCursor).AllPaginated(&got)
		check(t, err)
		same(t, got, []Reading{{Sensor: 100, At: []byte{1}}, {Sensor: 100, At: []byte{2}}})
	})
}

// garbage returns texts that are not cursors, and damaged forms of one.
func garbage(cursor string) []string {
	list := []string{"x", "====", "%%%", "ä", string(make([]byte, 9000)), base64.RawURLEncoding.EncodeToString(make([]byte, 40))}
	raw, _ := base64.RawURLEncoding.DecodeString(cursor)
	for i := range raw {
		list = append(list, base64.RawURLEncoding.EncodeToString(raw[:i]))
		damaged := slices.Clone(raw)
		damaged[i] ^= 0xff
		list = append(list, base64.RawURLEncoding.EncodeToString(damaged))
	}
	return append(list, cursor+"AAAA", base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw), 0)))
}

func TestInvalidCursors(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	orderTable(t, api)
	seedOrders(t, api, "ann", 3)
	db := tabletheory.New(api)
	query := func() *tabletheory.Query { return db.Model(Order{}).Where("Customer", "=", "ann") }
	cursor := cursors(t, db, map[string]*tabletheory.Query{"ann": query()})["ann"]
	for _, text := range garbage(cursor) {
		if text == "" {
			continue // the beginning
		}
		var items []Order
		if _, err := query().Cursor(text).AllPaginated(&items); !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Errorf("cursor %q: got %v, want an ErrInvalidQuery", text, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	api := localdynamotest.New(f)
	name := "orders"
	_, err := api.CreateTable(f.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: "PAY_PER_REQUEST",
		KeySchema: keySchema("customer", "number"), AttributeDefinitions: definitions("customer", "S", "number", "N"),
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range []Order{orderOf("ann", 1), orderOf("ann", 2), orderOf("bob", 1)} {
		if _, err := api.PutItem(f.Context(), &dynamodb.PutItemInput{TableName: &name, Item: rawOrder(o)}); err != nil {
			f.Fatal(err)
		}
	}
	db := tabletheory.New(api)
	query := func() *tabletheory.Query { return db.Model(Order{}).Where("Customer", "=", "ann") }
	var items []Order
	page, err := query().Limit(1).AllPaginated(&items)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range append(garbage(page.NextCursor), page.NextCursor) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		var items []Order
		_, err := query().Cursor(cursor).AllPaginated(&items)
		if err != nil && !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Fatalf("cursor %q: got error %v", cursor, err)
		}
		for _, order := range items {
			if order.Customer != "ann" {
				t.Fatalf("cursor %q read an order of %s", cursor, order.Customer)
			}
		}
	})
}
