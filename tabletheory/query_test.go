package tabletheory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
)

// Mistakes are found before anything is sent, and errors say what to do.
func TestInvalidQueries(t *testing.T) {
	t.Parallel()
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	db := tabletheory.New(api)
	ann := func() *tabletheory.Query { return db.Model(Order{}).Where("Customer", "=", "ann") }
	all := func(q *tabletheory.Query) error { var dest []Order; return q.All(&dest) }
	first := func(q *tabletheory.Query) error { var dest Order; return q.First(&dest) }
	scan := func(q *tabletheory.Query) error { var dest []Order; return q.Scan(&dest) }
	for _, test := range []struct {
		name  string
		err   error
		parts []string // of the error's text
	}{
		{"no partition key", all(db.Model(Order{})), []string{"Customer", "Scan"}},
		{"only a sort key", first(db.Model(Order{}).Where("Number", "=", 1)), []string{"Customer", "First"}},
		{"no key", all(ann().Where("Note", "=", "x")), []string{"Note", "Filter"}},
		{"the key of an index", all(ann().Where("Status", "=", "open")), []string{"Status", `Index("by-status")`}},
		{"a key of the table on an index", all(db.Model(Order{}).Index("by-status").Where("Status", "=", "open").Where("Number", "=", 1)), []string{"Number", "by-status"}},
		{"an unknown field", all(ann().Where("Colour", "=", "red")), []string{"Colour"}},
		{"a part of a field", all(ann().Where("Address.City", "=", "Bern")), []string{"Address", "Filter"}},
		{"two conditions on the sort key", all(ann().Where("Number", ">", 1).Where("Number", "<", 3)), []string{"Number", "BETWEEN"}},
		{"two conditions on the partition key", all(ann().Where("Customer", "=", "bob")), []string{"Customer"}},
		{"a range of partition keys", all(db.Model(Order{}).Where("Customer", "BETWEEN", []string{"a", "b"})), []string{"Customer", "="}},
		{"an operator of filters", all(ann().Where("Number", "<>", 1)), []string{"Number", "BEGINS_WITH"}},
		{"no operator", all(ann().Filter("Total", "~", 1)), []string{"Total", "~"}},
		{"an empty key", first(db.Model(Order{}).Where("Customer", "=", "").Where("Number", "=", 1)), []string{"Customer", "empty"}},
		{"a nil key", first(db.Model(Order{}).Where("Customer", "=", nil)), []string{"Customer"}},
		{"a key of another type", first(ann().Where("Number", "=", "one")), []string{"Number"}},
		{"a bound of another type", all(ann().Where("Number", ">", nil)), []string{"Number"}},
		{"a bound that is missing", all(ann().Where("Number", "BETWEEN", []any{1, nil})), []string{"Number"}},
		{"one bound", all(ann().Where("Number", "BETWEEN", []int{1})), []string{"Number", "two"}},
		{"no bounds", all(ann().Where("Number", "BETWEEN", 1)), []string{"Number", "two"}},
		{"the prefix of a number", all(ann().Where("Number", "begins_with", 1)), []string{"Number", "BETWEEN"}},
		{"an empty prefix", all(db.Model(FaceTheoryCacheLease{}).Where("PK", "=", "p").Where("SK", "BEGINS_WITH", "")), []string{"SK", "empty"}},
		{"a filter on a key", all(ann().Filter("Number", "=", 1)), []string{"Number", "Where"}},
		{"a filter on a key in a group", all(ann().FilterGroup(func(g *tabletheory.Query) { g.Filter("Number", "=", 1) })), []string{"Number", "Where"}},
		{"an empty group", all(ann().FilterGroup(func(*tabletheory.Query) {})), []string{"FilterGroup"}},
		{"no group", all(ann().OrFilterGroup(nil)), []string{"OrFilterGroup"}},
		{"a limit in a group", all(ann().OrFilterGroup(func(g *tabletheory.Query) { g.Filter("Total", ">", 1).Limit(1) })), []string{"Limit"}},
		{"a condition in a group", all(ann().FilterGroup(func(g *tabletheory.Query) { g.Filter("Total", ">", 1).IfExists() })), []string{"condition"}},
		{"a mistake in a group", all(ann().FilterGroup(func(g *tabletheory.Query) { g.Filter("Colour", ">", 1) })), []string{"Colour"}},
		{"an order by another field", all(ann().OrderBy("Total", "ASC")), []string{"Total", `Index("by-total")`}},
		{"an unknown direction", all(ann().OrderBy("Number", "DOWN")), []string{"DOWN", "DESC"}},
		{"an unknown index", all(ann().Index("by-colour")), []string{"by-colour", "by-status", "by-total"}},
		{"consistency of a global index", all(db.Model(Order{}).Index("by-status").Where("Status", "=", "open").ConsistentRead()), []string{"ConsistentRead", "by-status"}},
		{"consistency of a scanned global index", scan(db.Model(Order{}).Index("by-status").ConsistentRead()), []string{"ConsistentRead", "by-status"}},
		{"a negative limit", all(ann().Limit(-1)), []string{"Limit(-1)"}},
		{"select nothing", all(ann().Select()), []string{"Select"}},
		{"select a whole and its part", all(ann().Select("Address", "Address.City")), []string{"Address.City"}},
		{"select an unknown field", all(ann().Select("Colour")), []string{"Colour"}},
		{"a condition on a read", all(ann().WithCondition("Total", ">", 1)), []string{"condition", "Filter"}},
		{"another condition on a read", first(ann().IfExists()), []string{"condition"}},
		{"a condition on a scan", scan(db.Model(Order{}).IfNotExists()), []string{"condition"}},
		{"Where on a scan", scan(ann()), []string{"Where", "Filter"}},
		{"an order of a scan", scan(db.Model(Order{}).OrderBy("Number", "ASC")), []string{"OrderBy"}},
		{"a cursor of a scan", scan(db.Model(Order{}).Cursor("abc")), []string{"Cursor"}},
		{"no workers", db.Model(Order{}).ParallelScan(&[]Order{}, 0), []string{"0 segments"}},
		{"too many workers", db.Model(Order{}).ParallelScan(&[]Order{}, 1_000_001), []string{"1000000"}},
		{"count of a selection", func() error { _, err := ann().Select("Total").Count(); return err }(), []string{"Count", "Select"}},
		{"All into a struct", ann().All(&Order{}), []string{"*[]tabletheory_test.Order"}},
		{"All into a slice", ann().All([]Order{}), []string{"*[]tabletheory_test.Order"}},
		{"All into another model", ann().All(&[]Account{}), []string{"Order", "Account"}},
		{"All into nil", ann().All((*[]Order)(nil)), []string{"nil"}},
		{"First into a struct", ann().First(Order{}), []string{"*tabletheory_test.Order"}},
		{"First into nothing", ann().First(nil), []string{"nil"}},
		{"BatchGet with a limit", ann().Limit(1).BatchGet(nil, &[]Order{}), []string{"BatchGet", "Where"}},
		{"BatchGet of half a key", db.Model(Order{}).BatchGet([]any{"ann"}, &[]Order{}), []string{"key 0", "sort key"}},
		{"BatchGet of an empty key", db.Model(Account{}).BatchGet([]any{Account{ID: "a"}, ""}, &[]Account{}), []string{"key 1", "ID"}},
		{"BatchGet of an empty struct", db.Model(Account{}).BatchGet([]any{Account{}}, &[]Account{}), []string{"key 0", "ID"}},
		{"BatchGet of nothing", db.Model(Account{}).BatchGet([]any{nil}, &[]Account{}), []string{"key 0"}},
	} {
		if !errors.Is(test.err, tabletheory.ErrInvalidQuery) {
			t.Errorf("%s: got error %v, want an ErrInvalidQuery", test.name, test.err)
			continue
		}
		for _, part := range test.parts {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%s: error %q lacks %q", test.name, test.err, part)
			}
		}
	}
	if sent := calls.take(); sent != "" {
		t.Errorf("%s was sent", sent)
	}
}

func TestQueryRunsOnce(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	orderTable(t, api)
	seedOrders(t, api, "ann", 1)
	query := tabletheory.New(api).Model(Order{}).Where("Customer", "=", "ann")
	var all []Order
	check(t, query.All(&all))
	if err := query.All(&all); !errors.Is(err, tabletheory.ErrInvalidQuery) || !strings.Contains(err.Error(), "Model") {
		t.Errorf("second run: got %v, want an ErrInvalidQuery that mentions Model", err)
	}
}

func TestFilterGroupCannotExecute(t *testing.T) {
	t.Parallel()
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	orderTable(t, api)
	calls.take()
	var inner error
	var all []Order
	outer := tabletheory.New(api).Model(Order{}).Where("Customer", "=", "ann").FilterGroup(func(g *tabletheory.Query) {
		inner = g.Filter("Total", ">", 1).All(&all)
	}).All(&all)
	if !errors.Is(inner, tabletheory.ErrInvalidQuery) || !errors.Is(outer, tabletheory.ErrInvalidQuery) {
		t.Errorf("got %v inside and %v outside, want ErrInvalidQuery twice", inner, outer)
	}
	if sent := calls.take(); sent != "" {
		t.Errorf("%s was sent", sent)
	}
}

// Every call of a chain on an invalid model is harmless.
func TestChainOnAnInvalidModel(t *testing.T) {
	t.Parallel()
	db := tabletheory.New(localdynamotest.New(t))
	for _, v := range []any{nil, 1, "order", (*Order)(nil), []Order{}} {
		var dest []Order
		err := db.Model(v).Where("Customer", "=", "ann").Index("by-status").Filter("Total", ">", 1).OrFilter("Total", "<", 1).
			FilterGroup(func(*tabletheory.Query) {}).Limit(-1).OrderBy("Number", "ASC").Select("Total").Cursor("x").ConsistentRead().All(&dest)
		if !errors.Is(err, tabletheory.ErrInvalidModel) {
			t.Errorf("model %v: got error %v, want an ErrInvalidModel", v, err)
		}
	}
}
