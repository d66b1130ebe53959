package tabletheory_test

import (
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
)

// ignoreSDK ignores the fields of the SDK's values that have no meaning.
var ignoreSDK = cmp.Options{
	cmpopts.IgnoreUnexported(
		types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberNULL{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{},
		types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{},
	),
}

// builder begins an update of an order of ada.
func builder(db *tabletheory.DB) *tabletheory.UpdateBuilder {
	return db.Model(&Order{Customer: "ada", Number: 1}).UpdateBuilder()
}

func adasOrder() *Order {
	return &Order{
		Customer: "ada", Number: 1, Status: "open", Total: 10, Tags: []string{"a", "b"},
		Address: Address{Street: "1 Loop", City: "Paris"}, Lines: []Line{{"pen", 3}, {"ink", 7}},
	}
}

func TestUpdateBuilderChanges(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		mustNot(t, db.Model(adasOrder()).Create())
		var got Order
		mustNot(t, builder(db).
			Set("Status", "paid").
			SetIfNotExists("Note", "first").
			Add("Total", 5).
			Add("Tags", []string{"c"}).
			Set("Address.City", "Rome").
			AppendToList("Lines", []Line{{"nib", 1}}).
			ExecuteWithResult(&got))
		note := "first"
		want := adasOrder()
		want.Status, want.Total, want.Note, want.Address.City, want.Version = "paid", 15, &note, "Rome", 2
		want.Tags, want.Lines = []string{"a", "b", "c"}, append(want.Lines, Line{"nib", 1})
		want.CreatedAt, want.UpdatedAt = noon, noon
		sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		if diff := cmp.Diff(*want, got, sorted); diff != "" {
			t.Fatal(diff)
		}

		mustNot(t, builder(db).
			Decrement("Total").
			Increment("Placed").
			Delete("Tags", []string{"a"}).
			SetIfNotExists("Note", "second").
			SetListElement("Lines", 0, Line{"quill", 9}).
			RemoveFromListAt("Lines", 1).
			Set("Lines[2].Price", 2).
			ReturnValues("all_new").ExecuteWithResult(&got))
		want.Total, want.Placed, want.Tags, want.Version = 14, 1, []string{"b", "c"}, 3
		want.Lines = []Line{{"quill", 9}, {"nib", 2}}
		if diff := cmp.Diff(*want, got, sorted); diff != "" {
			t.Fatal(diff)
		}

		mustNot(t, builder(db).Remove("Lines").Remove("Note").Delete("Tags", []string{"b", "c"}).Remove("Address.Street").Execute())
		mustNot(t, builder(db).PrependToList("Lines", []Line{{"cap", 1}}).ExecuteWithResult(&got))
		want.Lines, want.Note, want.Tags, want.Address.Street, want.Version = []Line{{"cap", 1}}, nil, nil, "", 5
		if diff := cmp.Diff(*want, got, sorted); diff != "" {
			t.Fatal(diff)
		}
		mustNot(t, builder(db).PrependToList("Lines", []Line{{"lid", 2}}).ExecuteWithResult(&got))
		if diff := cmp.Diff([]Line{{"lid", 2}, {"cap", 1}}, got.Lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUpdateBuilderReturnValues(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		accountTable(t, api)
		db := tabletheory.New(api)
		update := func() *tabletheory.UpdateBuilder {
			return db.Model(&Account{ID: "a"}).UpdateBuilder().Set("Name", "Ada")
		}
		got := Account{Name: "before", Balance: 9}
		mustNot(t, update().ReturnValues("ALL_OLD").ExecuteWithResult(&got))
		if diff := cmp.Diff(Account{Name: "before", Balance: 9}, got); diff != "" {
			t.Errorf("there was no old item, but dest was changed: %s", diff)
		}
		mustNot(t, update().ReturnValues("UPDATED_NEW").ExecuteWithResult(&got))
		if diff := cmp.Diff(Account{ID: "a", Name: "Ada", Balance: 9}, got); diff != "" {
			t.Error(diff)
		}
		mustNot(t, db.Model(&Account{ID: "a"}).UpdateBuilder().Add("Balance", 3).ReturnValues("ALL_OLD").ExecuteWithResult(&got))
		if diff := cmp.Diff(Account{ID: "a", Name: "Ada"}, got); diff != "" {
			t.Error(diff)
		}
		mustNot(t, db.Model(&Account{ID: "a"}).UpdateBuilder().Add("Balance", 3).ReturnValues("UPDATED_OLD").ExecuteWithResult(&got))
		if got.Balance != 3 {
			t.Errorf("UPDATED_OLD is %d, want 3", got.Balance)
		}
	})
}

func TestUpdateBuilderConditions(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		mustNot(t, db.Model(adasOrder()).Create())
		pay := func() *tabletheory.UpdateBuilder { return builder(db).Set("Status", "paid") }
		wants(t, pay().Condition("Total", ">", 10).Execute(), tabletheory.ErrConditionFailed)
		wants(t, pay().Condition("Total", ">", 10).OrCondition("Status", "=", "new").Execute(), tabletheory.ErrConditionFailed)
		wants(t, pay().ConditionExists("Note").Execute(), tabletheory.ErrConditionFailed)
		wants(t, pay().ConditionNotExists("Status").Execute(), tabletheory.ErrConditionFailed)
		wants(t, pay().ConditionExpression("#Total > :n", map[string]any{":n": 10}).Execute(), tabletheory.ErrConditionFailed)
		wants(t, pay().ConditionVersion(2).Execute(), tabletheory.ErrVersionConflict, "version 1")
		// OrCondition is no alternative to the version or the query's conditions.
		wants(t, pay().ConditionVersion(2).Condition("Total", ">", 10).OrCondition("Status", "=", "open").Execute(), tabletheory.ErrVersionConflict)
		wants(t, db.Model(adasOrder()).WithCondition("Total", ">", 10).UpdateBuilder().Set("Status", "paid").OrCondition("Status", "=", "open").Execute(), tabletheory.ErrConditionFailed)
		var got Order
		mustNot(t, pay().ConditionVersion(1).Condition("Total", ">", 10).OrCondition("Status", "=", "open").ExecuteWithResult(&got))
		if got.Version != 2 || got.Status != "paid" {
			t.Errorf("version %d, status %s", got.Version, got.Status)
		}
	})
}

// A writer that has read the item gets a conflict after a builder has changed
// it.
func TestUpdateBuilderIncrementsTheVersion(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		order := adasOrder()
		mustNot(t, db.Model(order).Create())
		mustNot(t, builder(db).Set("Status", "paid").Execute())
		wants(t, db.Model(order).Update(), tabletheory.ErrVersionConflict, "version 2")
	})
}

func TestUpdateBuilderDoesNotChangeTheModel(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	orderTable(t, api)
	db := tabletheory.New(api)
	order := adasOrder()
	mustNot(t, db.Model(order).Create())
	before := *order
	mustNot(t, db.Model(order).UpdateBuilder().Set("Status", "paid").ConditionVersion(1).Execute())
	if diff := cmp.Diff(before, *order); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateBuilderStampsUnlessSet(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		mustNot(t, builder(db).Execute()) // updates only the time and the version
		if diff := cmp.Diff(str("2026-07-01T12:00:00Z"), getRaw(t, api, table, orderKey("ada", "1"))["updatedAt"], ignoreSDK); diff != "" {
			t.Error(diff)
		}
		mustNot(t, builder(db).Set("UpdatedAt", noon.AddDate(1, 0, 0)).Set("Version", 9).Execute())
		stored := getRaw(t, api, table, orderKey("ada", "1"))
		if diff := cmp.Diff(attrs{"u": str("2027-07-01T12:00:00Z"), "v": num("9")}, attrs{"u": stored["updatedAt"], "v": stored["version"]}, ignoreSDK); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUpdateBuilderRefuses(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	table := orderTable(t, api)
	accountTable(t, api)
	db := tabletheory.New(api)
	used := builder(db).Set("Total", 1)
	mustNot(t, used.Execute())
	before := getRaw(t, api, table, orderKey("ada", "1"))
	var order Order
	for _, test := range []struct {
		name  string
		err   error
		words string
	}{
		{"the same path twice", builder(db).Set("Status", "a").Set("status", "b").Execute(), "already changes"},
		{"a path in another", builder(db).Set("Address", Address{}).Remove("Address.City").Execute(), "already changes"},
		{"a path around another", builder(db).SetListElement("Lines", 1, Line{}).AppendToList("Lines", []Line{{}}).Execute(), "already changes"},
		{"a key", builder(db).Set("Number", 2).Execute(), "cannot be changed"},
		{"an unknown field", builder(db).Set("Stauts", "x").Execute(), "Stauts"},
		{"a negative index", builder(db).RemoveFromListAt("Lines", -1).Execute(), "-1"},
		{"a value of another type", builder(db).Set("Total", "many").Execute(), "Total"},
		{"adding a string", builder(db).Add("Note", true).Execute(), "Add"},
		{"no members", builder(db).Delete("Tags", []string{}).Execute(), "members"},
		{"mixed members", builder(db).Delete("Tags", []any{"a", 1}).Execute(), "set"},
		{"elements not in a slice", builder(db).AppendToList("Lines", Line{}).Execute(), "slice"},
		{"an operator", builder(db).Set("Status", "x").Condition("Status", "LIKE", "x").Execute(), "LIKE"},
		{"values to return", builder(db).Set("Status", "x").ReturnValues("SOME").Execute(), "SOME"},
		{"no result", builder(db).Set("Status", "x").ReturnValues("NONE").ExecuteWithResult(&order), "NONE"},
		{"a non-pointer result", builder(db).Set("Status", "x").ExecuteWithResult(order), "Order"},
		{"two versions", builder(db).Set("Status", "x").ConditionVersion(1).ConditionVersion(2).Execute(), "one"},
		{"a version and its change", builder(db).Set("Version", 3).ConditionVersion(1).Execute(), "Version"},
		{"a negative version", builder(db).Set("Status", "x").ConditionVersion(-1).Execute(), "-1"},
		{"no version field", db.Model(&Account{ID: "a"}).UpdateBuilder().Set("Name", "x").ConditionVersion(1).Execute(), "version"},
		{"nothing", db.Model(&Account{ID: "a"}).UpdateBuilder().Execute(), "nothing"},
		{"executed twice", used.Execute(), "already"},
	} {
		t.Run(test.name, func(t *testing.T) { wants(t, test.err, tabletheory.ErrInvalidQuery, test.words) })
	}
	if diff := cmp.Diff(before, getRaw(t, api, table, orderKey("ada", "1")), ignoreSDK); diff != "" {
		t.Errorf("something was sent: %s", diff)
	}
}

func TestConcurrentIncrementsLoseNothing(t *testing.T) {
	t.Parallel()
	const workers, each = 16, 10
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range each {
					if err := builder(db).Increment("Total").Execute(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		var got Order
		mustNot(t, builder(db).Add("Total", 0).ExecuteWithResult(&got))
		if got.Total != workers*each || got.Version != workers*each+1 {
			t.Errorf("total %d, version %d", got.Total, got.Version)
		}
	})
}
