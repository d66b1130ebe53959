package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
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
)

// publish is the transaction of the reference document: it puts META and deletes
// LOCK if the token matches and has not expired.
func publish(ctx context.Context, db *tabletheory.DB, leaseToken string, nowUnix int64) error {
	leaseItem := &FaceTheoryCacheLease{
		PK: "TENANT#t1#CACHE#abc",
		SK: "LOCK",
	}
	metaItem := &FaceTheoryCacheMetadata{
		PK:                leaseItem.PK,
		SK:                "META",
		S3Key:             "s3://bucket/key.html",
		GeneratedAt:       nowUnix,
		RevalidateSeconds: 60,
		ETag:              "\"abc123\"",
		TTL:               nowUnix + 86400,
	}
	return db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
		tx.Put(metaItem)

		tx.Delete(
			leaseItem,
			tabletheory.Condition("lease_token", "=", leaseToken),
			tabletheory.Condition("lease_expires_at", ">", nowUnix),
		)
		return nil
	})
}

func TestTransactWriteOfTheReference(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		db := tabletheory.New(api)
		lock := attrs{"pk": str("TENANT#t1#CACHE#abc"), "sk": str("LOCK")}
		meta := attrs{"pk": str("TENANT#t1#CACHE#abc"), "sk": str("META")}
		lease := &FaceTheoryCacheLease{PK: "TENANT#t1#CACHE#abc", SK: "LOCK", LeaseToken: "token", LeaseExpiresAt: 1000}
		mustNot(t, db.Model(lease).Create())

		for name, err := range map[string]error{
			"the token of another holder": publish(t.Context(), db, "stolen", 900),
			"an expired lease":            publish(t.Context(), db, "token", 1000),
		} {
			wants(t, err, tabletheory.ErrConditionFailed, "action 1, delete FaceTheoryCacheLease", "sk=LOCK")
			failed, ok := errors.AsType[*tabletheory.TransactionError](err)
			if !ok || len(failed.Reasons) != 2 {
				t.Fatalf("%s: %v lacks two reasons", name, err)
			}
			if r := failed.Reasons[0]; r.Failed() || r.Kind != "put" || r.Code != "None" || r.Item != nil {
				t.Errorf("%s: the put has the reason %+v", name, r)
			}
			r := failed.Reasons[1]
			if !r.Failed() || r.Kind != "delete" || r.Table != table || r.Code != "ConditionalCheckFailed" {
				t.Errorf("%s: the deletion has the reason %+v", name, r)
			}
			if diff := cmp.Diff(lock, r.Key, ignoreSDK); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			var found FaceTheoryCacheLease
			mustNot(t, r.Decode(&found))
			if diff := cmp.Diff(*lease, found); diff != "" {
				t.Errorf("%s: the reason has another item: %s", name, diff)
			}
			if _, ok := errors.AsType[*types.TransactionCanceledException](err); !ok || tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
				t.Errorf("%s: %v has the outcome %v", name, err, tabletheory.OutcomeOf(err))
			}
			if getRaw(t, api, table, meta) != nil || getRaw(t, api, table, lock) == nil {
				t.Fatalf("%s: something was written", name)
			}
		}

		mustNot(t, publish(t.Context(), db, "token", 999))
		if getRaw(t, api, table, lock) != nil {
			t.Error("the lease still exists")
		}
		want := attrs{
			"pk": str("TENANT#t1#CACHE#abc"), "sk": str("META"), "s3_key": str("s3://bucket/key.html"), "generated_at": num("999"),
			"revalidate_seconds": num("60"), "etag": str("\"abc123\""), "ttl": num("87399"),
		}
		if diff := cmp.Diff(want, getRaw(t, api, table, meta), ignoreSDK); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTransactionErrorFindsReasonByLabel(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	accountTable(t, api)
	db := tabletheory.New(api)
	type label struct{ part int }
	err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
		tx.Put(&Account{ID: "a"}).Label("first")
		tx.Put(&Account{ID: "b"})
		tx.Delete(&Account{ID: "c"}, tabletheory.IfExists()).Label(label{2})
		return nil
	})
	wants(t, err, tabletheory.ErrConditionFailed, "action 2 ({2}), delete Account id=c")
	failed, ok := errors.AsType[*tabletheory.TransactionError](err)
	if !ok {
		t.Fatalf("got %v, want a *TransactionError", err)
	}
	if r, ok := failed.Reason("first"); !ok || r.Failed() || r.ConditionFailed() || r.Label != "first" {
		t.Errorf("Reason of the put: %+v, %v", r, ok)
	}
	if r, ok := failed.Reason(label{2}); !ok || !r.Failed() || !r.ConditionFailed() || r.Kind != "delete" {
		t.Errorf("Reason of the delete: %+v, %v", r, ok)
	}
	for _, unknown := range []any{nil, "second", label{1}} {
		if r, ok := failed.Reason(unknown); ok {
			t.Errorf("Reason(%v) = %+v, want none", unknown, r)
		}
	}
	if r := failed.Reasons[1]; r.Label != nil {
		t.Errorf("the second action has the label %v", r.Label)
	}
}

func TestTransactWriteActions(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		accountTable(t, api)
		db := tabletheory.New(api, atNoon())
		orders := make([]*Order, 6)
		for i := range orders {
			orders[i] = &Order{Customer: "ada", Number: int64(i), Status: "open"}
		}
		for _, i := range []int{2, 3, 4, 5} {
			mustNot(t, db.Model(orders[i]).Create())
		}
		account := &Account{ID: "ada", Name: "Ada"}
		orders[2].Status = "paid"
		err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
			tx.Put(orders[0]).
				Create(orders[1]).
				Update(orders[2], []string{"Status"}, tabletheory.Condition("Status", "=", "open")).
				UpdateWithBuilder(orders[3], func(u *tabletheory.UpdateBuilder) error {
					u.Add("Total", 5).Condition("Total", "=", 0).OrCondition("Total", "=", 1)
					return nil
				}, tabletheory.AtVersion(1)).
				Delete(orders[4], tabletheory.IfExists()).
				ConditionCheck(orders[5], tabletheory.ConditionExpression("#Status = :s", map[string]any{":s": "open"})).
				Create(account, tabletheory.IfNotExists())
			return nil
		})
		mustNot(t, err)
		for i, want := range []int64{1, 1, 2, 1, 1, 1} { // a builder does not change the model
			if orders[i].Version != want {
				t.Errorf("model %d has version %d, want %d", i, orders[i].Version, want)
			}
		}
		for i, want := range []string{"1", "1", "2", "2", "", "1"} {
			stored := getRaw(t, api, table, orderKey("ada", fmt.Sprint(i)))
			if version, _ := stored["version"].(*types.AttributeValueMemberN); want == "" && stored != nil || want != "" && (version == nil || version.Value != want) {
				t.Errorf("order %d is stored as %v, want version %q", i, stored, want)
			}
		}
	})
}

func TestFailedTransactionChangesNoModel(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		stale := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(stale).Create())
		fresh := *stale
		mustNot(t, db.Model(&fresh).Update("Status"))

		created := &Order{Customer: "ada", Number: 2, Status: "new"}
		beforeStale, beforeCreated := *stale, *created
		err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
			tx.Create(created).Update(stale, nil)
			return nil
		})
		wants(t, err, tabletheory.ErrVersionConflict, "action 1, update Order", "version 2")
		wants(t, err, tabletheory.ErrConditionFailed)
		if diff := cmp.Diff([]Order{beforeStale, beforeCreated}, []Order{*stale, *created}); diff != "" {
			t.Error(diff)
		}
	})
}

// AtVersion replaces the version of a model that was not read.
func TestAtVersionReplacesTheModelsVersion(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		order := &Order{Customer: "ada", Number: 1, Status: "open"}
		mustNot(t, db.Model(order).Create())
		update := func(model *Order, version int64) error {
			return db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
				tx.Update(model, []string{"Status"}, tabletheory.AtVersion(version))
				return nil
			})
		}
		blind := &Order{Customer: "ada", Number: 1, Status: "paid"}
		wants(t, update(blind, 0), tabletheory.ErrVersionConflict)
		wants(t, update(blind, 2), tabletheory.ErrVersionConflict)
		mustNot(t, update(blind, 1))
		if blind.Version != 2 {
			t.Errorf("the model has version %d after version 1 was updated", blind.Version)
		}
	})
}

func TestInvalidTransactions(t *testing.T) {
	t.Parallel()
	sent := 0
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation == "TransactWriteItems" {
			sent++
		}
		return nil
	}))
	orderTable(t, api)
	accountTable(t, api)
	numberTable(t, api)
	db := tabletheory.New(api)
	a, order := &Account{ID: "a"}, &Order{Customer: "ada", Number: 1, Status: "open"}
	for _, test := range []struct {
		name  string
		build func(*tabletheory.TransactionBuilder)
		words string
	}{
		{"nothing", func(*tabletheory.TransactionBuilder) {}, "at least one"},
		{"too much", func(tx *tabletheory.TransactionBuilder) {
			for i := range 101 {
				tx.Put(&Account{ID: fmt.Sprint(i)})
			}
		}, "at most 100"},
		{"an item twice", func(tx *tabletheory.TransactionBuilder) { tx.ConditionCheck(a, tabletheory.IfExists()).Delete(a) }, "actions 0 and 1"},
		{"a number twice", func(tx *tabletheory.TransactionBuilder) { tx.Delete(&Numbered{"1"}).Delete(&Numbered{"1.0"}) }, "actions 0 and 1"},
		{"a check without a condition", func(tx *tabletheory.TransactionBuilder) { tx.ConditionCheck(a) }, "without a condition"},
		{"a token too long", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a).ClientRequestToken(strings.Repeat("x", 37)) }, "36"},
		{"an empty token", func(tx *tabletheory.TransactionBuilder) { tx.ClientRequestToken("").Delete(a) }, "36"},
		{"an unknown field", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a, tabletheory.Condition("x", "=", 1)) }, "action 0"},
		{"a version without a version field", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a, tabletheory.AtVersion(1)) }, "version"},
		{"two versions", func(tx *tabletheory.TransactionBuilder) {
			tx.Delete(order, tabletheory.AtVersion(1), tabletheory.AtVersion(2))
		}, "keep one"},
		{"an unknown condition", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a, tabletheory.Precondition{}) }, "zero Precondition"},
		{"Execute", func(tx *tabletheory.TransactionBuilder) {
			tx.UpdateWithBuilder(a, func(u *tabletheory.UpdateBuilder) error { return u.Set("Name", "x").Execute() })
		}, "Execute"},
		{"Execute, whose error is dropped", func(tx *tabletheory.TransactionBuilder) {
			tx.UpdateWithBuilder(a, func(u *tabletheory.UpdateBuilder) error { _ = u.Set("Name", "x").Execute(); return nil })
		}, "Execute"},
		{"values to return", func(tx *tabletheory.TransactionBuilder) {
			tx.UpdateWithBuilder(a, func(u *tabletheory.UpdateBuilder) error { u.Set("Name", "x").ReturnValues("ALL_NEW"); return nil })
		}, "ReturnValues"},
		{"a label without an action", func(tx *tabletheory.TransactionBuilder) { tx.Label("a").Delete(a) }, "before the first action"},
		{"a nil label", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a).Label(nil) }, "comparable"},
		{"a label that cannot be compared", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a).Label([]string{"a"}) }, "comparable"},
		{"two labels on one action", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a).Label("a").Label("b") }, "has the label a"},
		{"a label on two actions", func(tx *tabletheory.TransactionBuilder) { tx.Delete(a).Label("a").Delete(order).Label("a") }, "actions 0 and 1"},
		{"no function", func(tx *tabletheory.TransactionBuilder) { tx.UpdateWithBuilder(a, nil) }, "nil"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error { test.build(tx); return nil })
			wants(t, err, tabletheory.ErrInvalidQuery, test.words)
		})
	}
	for name, model := range map[string]any{"no struct": 1, "nil": nil, "a nil pointer": (*Account)(nil), "an empty key": &Account{}} {
		err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error { tx.Delete(model); return nil })
		t.Run(name, func(t *testing.T) { wants(t, err, tabletheory.ErrInvalidModel) })
	}
	mine := errors.New("mine")
	wants(t, db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error { tx.Put(a); return mine }), mine)
	if sent != 0 {
		t.Errorf("%d transactions were sent", sent)
	}
}

// Numbered has a key that can be spelled in several ways.
type Numbered struct {
	ID tabletheory.Number `theorydb:"pk"`
}

func (Numbered) TableName() string { return "numbered" }

func numberTable(t *testing.T, api *dynamodb.Client) {
	t.Helper()
	_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("numbered"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "N"),
	})
	mustNot(t, err)
}

// attempts counts and answers the transactions below the SDK, and records their
// tokens.
type attempts struct {
	mu     sync.Mutex
	tokens []string
	answer func(attempt int, apply func()) error // the first is 1
}

func (a *attempts) intercept(_ context.Context, call wire.Call, apply func()) error {
	in, ok := call.Input.(*dynamodb.TransactWriteItemsInput)
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = append(a.tokens, aws.ToString(in.ClientRequestToken))
	return a.answer(len(a.tokens), apply)
}

// checkTokens fails the test unless this many attempts were made with one token.
func (a *attempts) checkTokens(t *testing.T, want int) {
	t.Helper()
	if len(a.tokens) != want {
		t.Errorf("%d attempts, want %d", len(a.tokens), want)
	}
	for _, token := range a.tokens {
		if token == "" || token != a.tokens[0] {
			t.Errorf("the attempts have the tokens %q, want one", a.tokens)
		}
	}
}

func credit(ctx context.Context, db *tabletheory.DB) error {
	return db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
		tx.UpdateWithBuilder(&Account{ID: "a"}, func(u *tabletheory.UpdateBuilder) error { u.Add("Balance", 10); return nil })
		return nil
	})
}

func balance(t *testing.T, db *tabletheory.DB) int64 {
	t.Helper()
	var account Account
	err := db.Model(&Account{}).Where("ID", "=", "a").First(&account)
	if err != nil && !errors.Is(err, tabletheory.ErrItemNotFound) {
		t.Fatal(err)
	}
	return account.Balance
}

// More replies are lost than the SDK retries: the transaction is retried with
// its token and happens once.
func TestTransactionWithLostReplyHappensOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{answer: func(attempt int, apply func()) error {
			if attempt <= 7 {
				apply()
				return errors.New("reply lost")
			}
			return nil
		}}
		db := accountsIn(t, a)
		mustNot(t, credit(t.Context(), db))
		a.checkTokens(t, 8)
		if got := balance(t, db); got != 10 {
			t.Errorf("the balance is %d, want 10", got)
		}
	})
}

// accountsIn returns a DB with a table of accounts, for use inside a synctest
// bubble.
func accountsIn(t *testing.T, a *attempts, options ...tabletheory.Option) *tabletheory.DB {
	t.Helper()
	api := localdynamotest.New(t, localdynamotest.Intercept(a.intercept))
	_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("accounts"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
	})
	mustNot(t, err)
	return tabletheory.New(api, options...)
}

func TestOnlyTransientCancellationsAreRetried(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		answers  error // to the first two attempts
		retries  int
		attempts int
		want     error // nil: success
	}{
		{"conflict", cancellation("TransactionConflict"), 3, 3, nil},
		{"throttling", cancellation("ThrottlingError"), 3, 3, nil},
		{"capacity", cancellation("ProvisionedThroughputExceeded"), 3, 3, nil},
		{"conflict, too few retries", cancellation("TransactionConflict"), 1, 2, tabletheory.ErrTransactionConflict},
		{"conflict, no retries", cancellation("TransactionConflict"), 0, 1, tabletheory.ErrTransactionConflict},
		{"throttling, no retries", cancellation("ThrottlingError"), 0, 1, tabletheory.ErrThrottled},
		{"a condition", cancellation("ConditionalCheckFailed"), 3, 1, tabletheory.ErrConditionFailed},
		{"a condition and a conflict", cancellation("TransactionConflict", "ConditionalCheckFailed"), 3, 1, tabletheory.ErrConditionFailed},
		{"a faulty action and a conflict", cancellation("ValidationError", "TransactionConflict"), 3, 1, tabletheory.ErrTransactionConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attempts{answer: func(attempt int, _ func()) error {
					if attempt <= 2 {
						return test.answers
					}
					return nil
				}}
				db := accountsIn(t, a, tabletheory.WithRetries(test.retries))
				err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
					tx.Put(&Account{ID: "a", Balance: 10}).Put(&Account{ID: "b"})
					return nil
				})
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				a.checkTokens(t, test.attempts)
				if got := balance(t, db); (got == 10) != (test.want == nil) {
					t.Errorf("the balance is %d", got)
				}
			})
		})
	}
}

func cancellation(codes ...string) error {
	canceled := &types.TransactionCanceledException{Message: aws.String("Transaction cancelled")}
	for _, code := range codes {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code), Message: aws.String("because")})
	}
	return canceled
}

func TestTransactionStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &attempts{answer: func(int, func()) error { cancel(); return cancellation("TransactionConflict") }}
		db := accountsIn(t, a, tabletheory.WithRetries(100))
		if err := credit(ctx, db); err == nil {
			t.Error("no error after the context was done")
		}
		a.checkTokens(t, 1)
	})
}

func TestClientRequestTokenIsIdempotent(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		accountTable(t, api)
		db := tabletheory.New(api)
		token := fmt.Sprintf("credit-%d", time.Now().UnixNano())
		for range 2 {
			mustNot(t, db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
				tx.ClientRequestToken(token).UpdateWithBuilder(&Account{ID: "a"}, func(u *tabletheory.UpdateBuilder) error { u.Add("Balance", 10); return nil })
				return nil
			}))
		}
		if got := balance(t, db); got != 10 {
			t.Errorf("the balance is %d, want 10", got)
		}
	})
}

// A cancelled transaction does not use up its token: the next attempt with it is
// executed.
func TestTokenCanBeReusedAfterACancellation(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		accountTable(t, api)
		db := tabletheory.New(api)
		token := fmt.Sprintf("open-%d", time.Now().UnixNano())
		open := func() error {
			return db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
				tx.ClientRequestToken(token).Create(&Account{ID: "a"})
				return nil
			})
		}
		mustNot(t, db.Model(&Account{ID: "a"}).Create())
		wants(t, open(), tabletheory.ErrConditionFailed)
		mustNot(t, db.Model(&Account{ID: "a"}).Delete())
		mustNot(t, open())
	})
}

// Transfers between accounts, each conditional on the versions that it read,
// keep the sum.
func TestConcurrentTransactionsLoseNothing(t *testing.T) {
	t.Parallel()
	const workers, each = 16, 3
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		db := tabletheory.New(api)
		for n := range int64(2) {
			mustNot(t, db.Model(&Order{Customer: "ada", Number: n, Status: "open", Total: 100}).Create())
		}
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				for range each {
					if err := transfer(t.Context(), db, int64(worker%2)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		var orders []Order
		mustNot(t, db.Model(&Order{}).Where("Customer", "=", "ada").All(&orders))
		if len(orders) != 2 || orders[0].Total != 100 || orders[1].Total != 100 || orders[0].Version != workers*each+1 {
			t.Errorf("afterwards: %+v", orders)
		}
	})
}

// transfer moves 1 from one order to the other, and retries version conflicts.
func transfer(ctx context.Context, db *tabletheory.DB, from int64) error {
	for {
		var orders []Order
		if err := db.WithContext(ctx).Model(&Order{}).Where("Customer", "=", "ada").ConsistentRead().All(&orders); err != nil {
			return err
		}
		orders[from].Total--
		orders[1-from].Total++
		err := db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
			tx.Update(&orders[0], []string{"Total"}).Update(&orders[1], []string{"Total"})
			return nil
		})
		if !errors.Is(err, tabletheory.ErrVersionConflict) && !errors.Is(err, tabletheory.ErrTransactionConflict) {
			return err
		}
	}
}
