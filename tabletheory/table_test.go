package tabletheory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

func newTable[T any](t *testing.T, api *dynamodb.Client) *tabletheory.Table[T] {
	t.Helper()
	table, err := tabletheory.NewTable[T](tabletheory.New(api))
	check(t, err)
	return table
}

func TestTablePutGetUpdateDelete(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		table, ctx := newTable[Order](t, api), t.Context()

		order := Order{Customer: "ann", Number: 1, Status: "open", Placed: 1, Total: 5}
		check(t, table.Put(ctx, &order, tabletheory.IfNotExists()))
		if order.Version != 1 || order.CreatedAt.IsZero() || order.UpdatedAt.IsZero() {
			t.Errorf("after Put the order is %+v, want version 1 and times", order)
		}
		got, err := table.Consistent().Get(ctx, "ann", 1)
		check(t, err)
		same(t, got, order)

		other := Order{Customer: "ann", Number: 1, Status: "x", Placed: 1}
		if err := table.Put(ctx, &other, tabletheory.IfNotExists()); !errors.Is(err, tabletheory.ErrConditionFailed) {
			t.Errorf("Put of an existing item: got %v, want ErrConditionFailed", err)
		}

		total := func(u *tabletheory.UpdateBuilder) { u.Add("Total", 10).Set("Address.City", "Basel") }
		changed, err := table.Update(ctx, Order{Customer: "ann", Number: 1}, total, tabletheory.Condition("Status", "=", "open"))
		check(t, err)
		if changed.Total != 15 || changed.Address.City != "Basel" || changed.Version != 2 || changed.Status != "open" {
			t.Errorf("Update returns %+v, want total 15, Basel and version 2", changed)
		}
		_, err = table.Update(ctx, Order{Customer: "ann", Number: 1}, total, tabletheory.Condition("Status", "=", "shipped"))
		if !errors.Is(err, tabletheory.ErrConditionFailed) {
			t.Errorf("Update with a false condition: got %v, want ErrConditionFailed", err)
		}

		if err := table.Delete(ctx, order); !errors.Is(err, tabletheory.ErrVersionConflict) {
			t.Errorf("Delete of an old version: got %v, want ErrVersionConflict", err)
		}
		key := Order{Customer: "ann", Number: 1}
		if err := table.Delete(ctx, key, tabletheory.Condition("Total", "<", 15)); !errors.Is(err, tabletheory.ErrConditionFailed) {
			t.Errorf("Delete with a false condition: got %v, want ErrConditionFailed", err)
		}
		check(t, table.Delete(ctx, key, tabletheory.Condition("Total", "=", 15)))
		if _, err := table.Get(ctx, "ann", 1); !errors.Is(err, tabletheory.ErrItemNotFound) {
			t.Errorf("Get of a deleted item: got %v, want ErrItemNotFound", err)
		}
		check(t, table.Delete(ctx, key))
	})
}

// collect returns the items that a sequence yields before an error.
func collect[T any](seq func(func(T, error) bool)) (items []T, err error) {
	for item, err := range seq {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

func TestTableYieldsItems(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 7)
		seedOrders(t, api, "bob", 7)
		table := newTable[Order](t, api)
		seq := table.Query(t.Context(), func(q *tabletheory.Query) {
			q.Where("Customer", "=", "ann").Filter("Status", "=", "open").OrderBy("Number", "DESC").Limit(3)
		})
		for range 2 { // a sequence can be iterated twice
			got, err := collect(seq)
			check(t, err)
			same(t, got, orders("ann", 7, 5, 4))
		}
		all, err := collect(table.Consistent().Scan(t.Context(), nil))
		check(t, err)
		shipped, err := collect(table.Scan(t.Context(), func(q *tabletheory.Query) { q.Filter("Status", "=", "shipped").Select("Number") }))
		check(t, err)
		if len(all) != 14 || len(shipped) != 4 || shipped[0].Customer != "" {
			t.Errorf("Scan found %d orders, %d of them shipped, want 14 and 4", len(all), len(shipped))
		}
	})
}

// Pages are fetched when the consumer reaches them, and no more after it has
// stopped.
func TestTableFetchesPagesAsTheyAreConsumed(t *testing.T) {
	t.Parallel()
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	name := accountTable(t, api)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		putRaw(t, api, name, attrs{"id": str(id), "name": str(strings.Repeat("n", 350<<10))})
	}
	calls.take()
	seen := 0
	for _, err := range newTable[Account](t, api).Scan(t.Context(), nil) {
		check(t, err)
		if seen++; seen == 1 {
			if got := calls.take(); got != "Scan" {
				t.Errorf("before the first item %q was sent, want one Scan", got)
			}
		}
		if seen == 4 { // on the second page
			break
		}
	}
	if got := calls.take(); got != "Scan" {
		t.Errorf("for the second page %q was sent, want one Scan", got)
	}
}

func TestTableYieldsErrorsLast(t *testing.T) {
	t.Parallel()
	pages := 0
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation != "Scan" {
			return nil
		}
		if pages++; pages > 1 {
			return &types.ResourceNotFoundException{}
		}
		return nil
	}))
	name := accountTable(t, api)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		putRaw(t, api, name, attrs{"id": str(id), "name": str(strings.Repeat("n", 350<<10))})
	}
	items, failures := 0, 0
	for account, err := range newTable[Account](t, api).Scan(t.Context(), nil) {
		if err == nil {
			items++
			continue
		}
		if failures++; !errors.Is(err, tabletheory.ErrTableNotFound) || account != (Account{}) {
			t.Errorf("got error %v with %v, want ErrTableNotFound and a zero item", err, account.ID)
		}
	}
	if items != 3 || failures != 1 {
		t.Errorf("%d items and %d errors were yielded, want 3 and 1", items, failures)
	}
}

func TestInvalidTableCalls(t *testing.T) {
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	table, ctx := newTable[Order](t, api), t.Context()
	get := func(hash any, sort ...any) error { _, err := table.Get(ctx, hash, sort...); return err }
	update := func(change func(*tabletheory.UpdateBuilder)) error {
		_, err := table.Update(ctx, Order{Customer: "ann", Number: 1}, change)
		return err
	}
	query := func(build func(*tabletheory.Query)) error { _, err := collect(table.Query(ctx, build)); return err }
	for name, err := range map[string]error{
		"half a key":            get("ann"),
		"too many key values":   get("ann", 1, 2),
		"an empty key":          get("", 1),
		"a key of another type": get("ann", "one"),
		"no key":                get(nil, 1),
		"no item":               table.Put(ctx, nil),
		"no change":             update(nil),
		"a change of its own":   update(func(u *tabletheory.UpdateBuilder) { u.Set("Total", 1).ReturnValues("ALL_OLD") }),
		"an update in an update": update(func(u *tabletheory.UpdateBuilder) {
			if err := u.Set("Total", 1).Execute(); err == nil {
				t.Error("an update was executed in its callback")
			}
		}),
		"a query of everything":  query(nil),
		"a negative limit":       query(func(q *tabletheory.Query) { q.Where("Customer", "=", "ann").Limit(-1) }),
		"a query with condition": query(func(q *tabletheory.Query) { q.Where("Customer", "=", "ann").IfExists() }),
		"a query in a query": query(func(q *tabletheory.Query) {
			if err := q.Where("Customer", "=", "ann").All(&[]Order{}); err == nil {
				t.Error("a query was executed in its callback")
			}
		}),
		"a scan of a partition": func() error {
			_, err := collect(table.Scan(ctx, func(q *tabletheory.Query) { q.Where("Customer", "=", "ann") }))
			return err
		}(),
	} {
		if !errors.Is(err, tabletheory.ErrInvalidQuery) {
			t.Errorf("%s: got error %v, want an ErrInvalidQuery", name, err)
		}
	}
	if sent := calls.take(); sent != "" {
		t.Errorf("%s was sent", sent)
	}

	db := tabletheory.New(api)
	if _, err := tabletheory.NewTable[*Order](db); !errors.Is(err, tabletheory.ErrInvalidModel) {
		t.Errorf("table of pointers: got %v, want ErrInvalidModel", err)
	}
	if _, err := tabletheory.NewTable[int](db); !errors.Is(err, tabletheory.ErrInvalidModel) {
		t.Errorf("table of integers: got %v, want ErrInvalidModel", err)
	}
	t.Setenv("TABLETHEORY_ORDERS", "")
	if _, err := tabletheory.NewTable[Order](db); !errors.Is(err, tabletheory.ErrInvalidModel) || !strings.Contains(err.Error(), "Order") {
		t.Errorf("table without a name: got %v, want an ErrInvalidModel that names the model", err)
	}
}

// The items of a sequence share no memory, although they are decoded into one
// variable.
func TestItemsOfASequenceAreIndependent(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		note := "first"
		first, second := orderOf("ann", 1), orderOf("ann", 2)
		first.Note, first.Tags = &note, []string{"a"}
		second.Lines = nil
		check(t, db.Model(&first).Create())
		check(t, db.Model(&second).Create())
		table, err := tabletheory.NewTable[Order](db)
		check(t, err)
		for name, selected := range map[string][]string{"whole": nil, "selected": {"Number", "Note", "Lines", "Tags"}} {
			t.Run(name, func(t *testing.T) {
				build := func(q *tabletheory.Query) {
					q.Where("Customer", "=", "ann")
					if selected != nil {
						q.Select(selected...)
					}
				}
				var got []Order
				for order, err := range table.Query(t.Context(), build) {
					check(t, err)
					got = append(got, order)
				}
				q := db.Model(Order{})
				build(q)
				var want []Order
				check(t, q.All(&want))
				same(t, got, want)
				if len(got) != 2 || got[0].Note == nil || got[1].Note != nil || got[1].Lines != nil || got[1].Tags != nil {
					t.Errorf("the second order has values of the first: %+v", got)
				}
			})
		}
	})
}
