package tabletheory_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// noon is the time at which tests write.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// atNoon is a fixed clock.
func atNoon() tabletheory.Option { return tabletheory.WithClock(func() time.Time { return noon }) }

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants fails the test unless err is all of the sentinels and its text has all
// of the words.
func wants(t *testing.T, err error, sentinel error, words ...string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("got error %v, want %v", err, sentinel)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q lacks %q", err, word)
		}
	}
}

func orderKey(customer, number string) attrs {
	return attrs{"customer": str(customer), "number": num(number)}
}

func TestCreateRefusesAnExistingItem(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		order := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(order).Create())
		if order.Version != 1 || !order.CreatedAt.Equal(noon) || !order.UpdatedAt.Equal(noon) {
			t.Errorf("the model has version %d and times %v and %v, want 1 and noon", order.Version, order.CreatedAt, order.UpdatedAt)
		}
		stored := getRaw(t, api, table, orderKey("ada", "1"))
		wanted := attrs{"version": num("1"), "createdAt": str("2026-07-01T12:00:00Z"), "updatedAt": str("2026-07-01T12:00:00Z"), "status": str("open")}
		for name, want := range wanted {
			if diff := cmp.Diff(want, stored[name], ignoreSDK); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		again := &Order{Customer: "ada", Number: 1, Status: "stolen"}
		err := db.Model(again).Create()
		wants(t, err, tabletheory.ErrConditionFailed, "create", "Order", "customer=ada", "number=1", table)
		if errors.Is(err, tabletheory.ErrVersionConflict) {
			t.Errorf("%v is a version conflict, but no version was required", err)
		}
		if diff := cmp.Diff(&Order{Customer: "ada", Number: 1, Status: "stolen"}, again); diff != "" {
			t.Errorf("a failed write has changed the model: %s", diff)
		}
		failed, ok := errors.AsType[*tabletheory.ConditionError](err)
		if !ok {
			t.Fatalf("%v is not a ConditionError", err)
		}
		var found Order
		mustNot(t, failed.Decode(&found))
		if diff := cmp.Diff(*order, found); diff != "" {
			t.Errorf("the error has another item: %s", diff)
		}
		if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok {
			t.Errorf("%v does not wrap the SDK's error", err)
		}
		if outcome := tabletheory.OutcomeOf(err); outcome != tabletheory.ConditionFailed {
			t.Errorf("the outcome is %v", outcome)
		}
	})
}

func TestCreateKeepsVersionAndTimesOfTheModel(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		before := noon.Add(-time.Hour)
		order := &Order{Customer: "ada", Number: 1, Status: "moved", Version: 7, CreatedAt: before, UpdatedAt: before}
		mustNot(t, db.Model(order).Create())
		if order.Version != 7 || !order.CreatedAt.Equal(before) || !order.UpdatedAt.Equal(noon) {
			t.Errorf("version %d, created %v, updated %v", order.Version, order.CreatedAt, order.UpdatedAt)
		}
	})
}

// A struct can be written as well as a pointer to one.
func TestCreateOfAStructByValue(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		mustNot(t, tabletheory.New(api).Model(Order{Customer: "ada", Number: 1, Status: "open"}).Create())
		if stored := getRaw(t, api, table, orderKey("ada", "1")); stored["version"] == nil {
			t.Errorf("stored without a version: %v", stored)
		}
	})
}

func TestCreateOrUpdateComparesVersions(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		order := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(order).CreateOrUpdate())
		order.Status = "paid"
		mustNot(t, db.Model(order).CreateOrUpdate())
		if order.Version != 2 {
			t.Errorf("the version is %d after two writes", order.Version)
		}
		wants(t, db.Model(&Order{Customer: "ada", Number: 1, Status: "blind"}).CreateOrUpdate(), tabletheory.ErrVersionConflict, "version 2")
		wants(t, db.Model(&Order{Customer: "ada", Number: 1, Status: "late", Version: 1}).CreateOrUpdate(), tabletheory.ErrVersionConflict)
		wants(t, db.Model(&Order{Customer: "ada", Number: 2, Status: "gone", Version: 1}).CreateOrUpdate(), tabletheory.ErrVersionConflict, "does not exist")
	})
}

func TestCreateOrUpdateReplacesWithoutVersions(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		putRaw(t, api, table, attrs{"id": str("a"), "old": str("attribute")})
		db := tabletheory.New(api)
		mustNot(t, db.Model(&Account{ID: "a", Name: "Ada"}).CreateOrUpdate())
		want := attrs{"id": str("a"), "name": str("Ada"), "balance": num("0")}
		if diff := cmp.Diff(want, getRaw(t, api, table, attrs{"id": str("a")}), ignoreSDK); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUpdateSetsAndRemoves(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		note := "by hand"
		order := &Order{Customer: "ada", Number: 1, Status: "open", Total: 5, Tags: []string{"new"}, Note: &note}
		mustNot(t, tabletheory.New(api, atNoon()).Model(order).Create())

		later := noon.Add(time.Minute)
		db := tabletheory.New(api, tabletheory.WithClock(func() time.Time { return later }))
		order.Status, order.Total, order.Note, order.Tags = "paid", 9, nil, nil
		mustNot(t, db.Model(order).Update("Status", "note", "Tags"))
		if order.Version != 2 || !order.UpdatedAt.Equal(later) || !order.CreatedAt.Equal(noon) {
			t.Errorf("version %d, created %v, updated %v", order.Version, order.CreatedAt, order.UpdatedAt)
		}
		stored := getRaw(t, api, table, orderKey("ada", "1"))
		want := attrs{"status": str("paid"), "total": num("5"), "version": num("2"), "note": nil, "tags": nil}
		for name, av := range want {
			if diff := cmp.Diff(av, stored[name], ignoreSDK); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		mustNot(t, db.Model(order).Update())
		var read Order
		mustNot(t, db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).First(&read))
		if diff := cmp.Diff(*order, read); diff != "" {
			t.Errorf("the stored item differs from the model after an update of all fields: %s", diff)
		}
	})
}

func TestUpdateComparesVersions(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api)
		order := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(order).Create())
		stale := *order
		order.Status = "paid"
		mustNot(t, db.Model(order).WithCondition("Status", "=", "open").Update("Status"))
		if order.Version != 2 {
			t.Errorf("with a condition the version became %d, want 2", order.Version)
		}

		before := stale
		err := db.Model(&stale).WithCondition("Status", "=", "paid").Update("Status")
		wants(t, err, tabletheory.ErrVersionConflict, "version 2")
		wants(t, err, tabletheory.ErrConditionFailed)
		if diff := cmp.Diff(before, stale); diff != "" {
			t.Errorf("a failed update has changed the model: %s", diff)
		}
		err = db.Model(order).WithCondition("Status", "=", "open").Update("Status")
		wants(t, err, tabletheory.ErrConditionFailed)
		if errors.Is(err, tabletheory.ErrVersionConflict) {
			t.Errorf("%v is a version conflict, but the version matched", err)
		}

		putRaw(t, api, table, attrs{"customer": str("bob"), "number": num("1"), "status": str("open")})
		other := &Order{Customer: "bob", Number: 1, Status: "paid"}
		mustNot(t, db.Model(other).Update("Status")) // a missing version is 0
		if other.Version != 1 {
			t.Errorf("the version of an item without one became %d, want 1", other.Version)
		}
	})
}

func TestUpdateOfAMissingItem(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		db := tabletheory.New(api)
		err := db.Model(&Account{ID: "a", Name: "Ada"}).IfExists().Update("Name")
		wants(t, err, tabletheory.ErrConditionFailed, "does not exist")
		failed, _ := errors.AsType[*tabletheory.ConditionError](err)
		var into Account
		wants(t, failed.Decode(&into), tabletheory.ErrItemNotFound)
		mustNot(t, db.Model(&Account{ID: "a", Name: "Ada"}).IfNotExists().Update("Name"))
		if diff := cmp.Diff(attrs{"id": str("a"), "name": str("Ada")}, getRaw(t, api, table, attrs{"id": str("a")}), ignoreSDK); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api)
		order := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(order).Create())
		wants(t, db.Model(&Order{Customer: "ada", Number: 1, Version: 3}).Delete(), tabletheory.ErrVersionConflict)
		wants(t, db.Model(&Order{Customer: "ada", Number: 1}).WithCondition("status", "=", "paid").Delete(), tabletheory.ErrConditionFailed)
		wants(t, db.Model(order).WithConditionExpression("#Status = :paid OR #total > :total", map[string]any{":paid": "paid", ":total": 100}).Delete(), tabletheory.ErrConditionFailed)
		if getRaw(t, api, table, orderKey("ada", "1")) == nil {
			t.Fatal("a condition was dropped: the item is gone")
		}
		mustNot(t, db.Model(order).WithConditionExpression("#Status = :open OR #total > :total", map[string]any{":open": "open", ":total": 100}).Delete())
		if stored := getRaw(t, api, table, orderKey("ada", "1")); stored != nil {
			t.Errorf("still stored: %v", stored)
		}
		mustNot(t, db.Model(&Order{Customer: "ada", Number: 1}).Delete())
		wants(t, db.Model(&Order{Customer: "ada", Number: 1}).IfExists().Delete(), tabletheory.ErrConditionFailed)
		wants(t, db.Model(order).Delete(), tabletheory.ErrVersionConflict)
	})
}

func TestWriteWithKeyFromWhere(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api)
		mustNot(t, db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).Create())
		mustNot(t, db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).UpdateBuilder().Set("Status", "paid").Execute())
		if diff := cmp.Diff(str("paid"), getRaw(t, api, table, orderKey("ada", "1"))["status"], ignoreSDK); diff != "" {
			t.Error(diff)
		}
		mustNot(t, db.Model(&Order{Customer: "ada", Number: 1}).Where("Customer", "=", "ada").Where("Number", "=", 1).Delete())
		if stored := getRaw(t, api, table, orderKey("ada", "1")); stored != nil {
			t.Errorf("still stored: %v", stored)
		}
	})
}

func TestInvalidWrites(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	orderTable(t, api)
	db := tabletheory.New(api)
	full := func() *Order { return &Order{Customer: "ada", Number: 1, Status: "open"} }
	mustNot(t, db.Model(full()).Create())
	for _, test := range []struct {
		name  string
		err   error
		words string
	}{
		{"part of a key", db.Model(&Order{}).Where("Customer", "=", "ada").Delete(), "Number"},
		{"a range of keys", db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", ">", 0).Delete(), "WithCondition"},
		{"no key", db.Model(&Order{}).Where("Status", "=", "open").Delete(), "Status"},
		{"a key twice", db.Model(&Order{}).Where("Customer", "=", "ada").Where("Customer", "=", "ada").Delete(), "twice"},
		{"another key", db.Model(full()).Where("Customer", "=", "bob").Where("Number", "=", 1).Delete(), "bob"},
		{"where on create", db.Model(full()).Where("Customer", "=", "ada").Create(), "Where"},
		{"filter", db.Model(full()).Filter("Status", "=", "paid").Delete(), "WithCondition"},
		{"limit", db.Model(full()).Limit(1).Delete(), "Limit"},
		{"index", db.Model(full()).Index("by-status").Update("Status"), "Index"},
		{"select", db.Model(full()).Select("Status").Update(), "Select"},
		{"a condition on a batch", db.Model(&Order{}).IfNotExists().BatchCreate([]Order{*full()}), "condition"},
		{"a key field", db.Model(full()).Update("Number"), "cannot be changed"},
		{"an unknown field", db.Model(full()).Update("Stauts"), "Stauts"},
		{"a path", db.Model(full()).Update("Address.City"), "UpdateBuilder"},
		{"a field twice", db.Model(full()).Update("Status", "status"), "twice"},
		{"an unknown operator", db.Model(full()).WithCondition("Status", "~", "x").Delete(), "~"},
		{"a condition on an unknown field", db.Model(full()).WithCondition("Stauts", "=", "x").Delete(), "Stauts"},
		{"an empty expression", db.Model(full()).WithConditionExpression("", nil).Delete(), "empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			wants(t, test.err, tabletheory.ErrInvalidQuery, test.words)
			if outcome := tabletheory.OutcomeOf(test.err); outcome != tabletheory.Refused {
				t.Errorf("the outcome is %v", outcome)
			}
		})
	}
	n, err := db.Model(&Order{}).Where("Customer", "=", "ada").Count()
	if err != nil || n != 1 {
		t.Errorf("%d items afterwards, %v; want 1", n, err)
	}
	wants(t, db.Model(&Order{Number: 1}).Delete(), tabletheory.ErrInvalidModel, "Customer")
	wants(t, db.Model(&Order{Number: 1, Status: "x"}).Create(), tabletheory.ErrInvalidModel, "Customer")
}

// Concurrent increments by Update, each retried on a version conflict, lose
// nothing.
func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	t.Parallel()
	const workers, each = 16, 5
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		mustNot(t, db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).Create())
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range each {
					if err := incrementTotal(t.Context(), db); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		var order Order
		mustNot(t, db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).First(&order))
		if order.Total != workers*each || order.Version != workers*each+1 {
			t.Errorf("total %d, version %d after %d increments", order.Total, order.Version, workers*each)
		}
	})
}

func incrementTotal(ctx context.Context, db *tabletheory.DB) error {
	for {
		var order Order
		err := db.WithContext(ctx).Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).ConsistentRead().First(&order)
		if err != nil {
			return err
		}
		order.Total++
		err = db.WithContext(ctx).Model(&order).Update("Total")
		if !errors.Is(err, tabletheory.ErrVersionConflict) {
			return err
		}
	}
}

// Legacy has the times and the version in other types, and in an embedded
// pointer that may be nil.
type Legacy struct {
	ID string `theorydb:"pk"`
	*Audit
	Revision uint16 `theorydb:"version"`
}

// Audit is a part of a [Legacy].
type Audit struct {
	Created int32  `theorydb:"created_at"`
	Updated string `theorydb:"updated_at"`
}

func (Legacy) TableName() string { return "legacy" }

func legacyTable(t *testing.T, api *dynamodb.Client) {
	t.Helper()
	_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("legacy"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
	})
	mustNot(t, err)
}

func TestTimesAndVersionsInOtherTypes(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	legacyTable(t, api)
	db := tabletheory.New(api, atNoon())
	item := &Legacy{ID: "a"}
	mustNot(t, db.Model(item).Create())
	want := attrs{"id": str("a"), "created": num("1782907200"), "updated": str("2026-07-01T12:00:00Z"), "revision": num("1")}
	if diff := cmp.Diff(want, getRaw(t, api, "legacy", attrs{"id": str("a")}), ignoreSDK); diff != "" {
		t.Error(diff)
	}
	mustNot(t, db.Model(item).Update())
	if item.Revision != 2 || item.Created != 1782907200 || item.Updated != "2026-07-01T12:00:00Z" {
		t.Errorf("revision %d, created %d, updated %s", item.Revision, item.Created, item.Updated)
	}
	last := uint16(65535)
	mustNot(t, db.Model(&Legacy{ID: "b", Revision: last}).Create())
	wants(t, db.Model(&Legacy{ID: "b", Revision: last}).Update(), tabletheory.ErrInvalidModel, "Revision", "65536")
}

func TestFailedWriteKeepsEmbeddedPointerNil(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	legacyTable(t, api)
	db := tabletheory.New(api)
	mustNot(t, db.Model(&Legacy{ID: "a"}).Create())
	again := &Legacy{ID: "a"}
	wants(t, db.Model(again).Create(), tabletheory.ErrConditionFailed)
	if again.Audit != nil || again.Revision != 0 {
		t.Errorf("a failed write has changed the model: %+v", again)
	}
}

// Secret has an encrypted field.
type Secret struct {
	ID     string `theorydb:"pk"`
	Token  string `theorydb:"encrypted"`
	Public string
}

func (Secret) TableName() string { return "secrets" }

// secrets returns a DB with keys and the table of [Secret].
func secrets(t *testing.T) (*tabletheory.DB, *dynamodb.Client) {
	t.Helper()
	api := localdynamotest.New(t)
	_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("secrets"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
	})
	mustNot(t, err)
	keys, err := envelope.OpenKeyFile(filepath.Join(t.TempDir(), "keys"))
	mustNot(t, err)
	return tabletheory.New(api, tabletheory.WithKeyProvider(keys)), api
}

func TestEveryWriteEncrypts(t *testing.T) {
	t.Parallel()
	db, api := secrets(t)
	for name, write := range map[string]func(*Secret) error{
		"create":         func(s *Secret) error { return db.Model(s).Create() },
		"put":            func(s *Secret) error { return db.Model(s).CreateOrUpdate() },
		"update":         func(s *Secret) error { return db.Model(s).Update() },
		"update builder": func(s *Secret) error { return db.Model(s).UpdateBuilder().Set("Token", s.Token).Execute() },
		"batch":          func(s *Secret) error { return db.Model(s).BatchCreate([]*Secret{s}) },
		"transaction": func(s *Secret) error {
			return db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error { tx.Put(s); return nil })
		},
		"transacted update": func(s *Secret) error {
			return db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
				tx.UpdateWithBuilder(s, func(u *tabletheory.UpdateBuilder) error { u.Set("Token", s.Token); return nil })
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			mustNot(t, write(&Secret{ID: name, Token: "s3cret"}))
			if av, ok := getRaw(t, api, "secrets", attrs{"id": str(name)})["token"].(*types.AttributeValueMemberM); !ok || av.Value["ct"] == nil {
				t.Errorf("stored in plain: %v", av)
			}
			var read Secret
			mustNot(t, db.Model(&Secret{}).Where("ID", "=", name).First(&read))
			if read.Token != "s3cret" {
				t.Errorf("read %q", read.Token)
			}
		})
	}
}

func TestErrorsAndResultsDecrypt(t *testing.T) {
	t.Parallel()
	db, _ := secrets(t)
	mustNot(t, db.Model(&Secret{ID: "a", Token: "s3cret", Public: "x"}).Create())
	err := db.Model(&Secret{ID: "a"}).Create()
	failed, ok := errors.AsType[*tabletheory.ConditionError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	want := Secret{ID: "a", Token: "s3cret", Public: "x"}
	for range 2 { // decoding does not change the error
		var found Secret
		mustNot(t, failed.Decode(&found))
		if diff := cmp.Diff(want, found); diff != "" {
			t.Error(diff)
		}
	}
	for _, returned := range []string{"ALL_NEW", "UPDATED_NEW", "all_old"} {
		var found Secret
		mustNot(t, db.Model(&Secret{ID: "a"}).UpdateBuilder().Set("Token", "s3cret").ReturnValues(returned).ExecuteWithResult(&found))
		if found.Token != "s3cret" {
			t.Errorf("%s returned %+v", returned, found)
		}
	}
}

func TestEncryptedFieldsCannotBeUpdatedInPlace(t *testing.T) {
	t.Parallel()
	db, _ := secrets(t)
	mustNot(t, db.Model(&Secret{ID: "a", Token: "s3cret"}).Create())
	update := func() *tabletheory.UpdateBuilder { return db.Model(&Secret{ID: "a"}).UpdateBuilder() }
	for name, err := range map[string]error{
		"condition":         db.Model(&Secret{ID: "a"}).WithCondition("Token", "=", "s3cret").Delete(),
		"builder condition": update().Set("Public", "y").Condition("Token", "=", "s3cret").Execute(),
		"set if not exists": update().SetIfNotExists("Token", "x").Execute(),
		"add":               update().Add("Token", 1).Execute(),
		"append":            update().AppendToList("Token", []string{"x"}).Execute(),
		"a path inside":     update().Set("Token.ct", "x").Execute(),
		"removal inside":    update().Remove("Token.ct").Execute(),
		"a list element":    update().SetListElement("Token", 0, "x").Execute(),
		"members of a set":  update().Delete("Token", []string{"x"}).Execute(),
		"prepend":           update().PrependToList("Token", []string{"x"}).Execute(),
		"condition inside":  update().Set("Public", "y").ConditionExists("Token.ct").Execute(),
		"transact condition": db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
			tx.Delete(&Secret{ID: "a"}, tabletheory.Condition("Token", "=", "x"))
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) { wants(t, err, tabletheory.ErrInvalidQuery) })
	}
	mustNot(t, update().Set("Public", "y").ConditionExists("Token").Execute())
	wants(t, update().Set("Public", "z").ConditionNotExists("Token").Execute(), tabletheory.ErrConditionFailed)
	mustNot(t, update().Remove("Token").Execute())
}

func TestServiceErrorsHaveSentinels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ answer, want error }{
		{&types.TransactionConflictException{Message: aws.String("x")}, tabletheory.ErrTransactionConflict},
		{&types.ProvisionedThroughputExceededException{Message: aws.String("x")}, tabletheory.ErrThrottled},
		{&types.ThrottlingException{Message: aws.String("x")}, tabletheory.ErrThrottled},
		{&types.ResourceNotFoundException{Message: aws.String("x")}, tabletheory.ErrTableNotFound},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := tabletheory.New(bareAccounts(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
				if call.Operation == "PutItem" {
					return test.answer
				}
				return nil
			})))
			wants(t, db.Model(&Account{ID: "a"}).Create(), test.want, "create Account id=a")
		})
	}
}

func TestWritesToAMissingTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		db := tabletheory.New(api)
		wants(t, db.Model(&Account{ID: "a"}).Create(), tabletheory.ErrTableNotFound, "accounts")
		wants(t, credit(t.Context(), db), tabletheory.ErrTableNotFound)
		wants(t, db.Model(&Account{}).BatchDelete([]any{"a"}), tabletheory.ErrTableNotFound, "0 of 1")
	})
}
