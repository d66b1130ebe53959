package tabletheory_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
)

// TestReturnOld: the reply has the replaced or deleted item.
func TestReturnOld(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		accountTable(t, api)
		db := tabletheory.New(api)
		untouched := Account{ID: "nobody", Balance: 7}
		old := untouched
		mustNot(t, db.Model(&Account{ID: "a", Balance: 1}).ReturnOld(&old).CreateOrUpdate())
		if old != untouched {
			t.Errorf("without an old item ReturnOld read %+v", old)
		}
		mustNot(t, db.Model(&Account{ID: "a", Balance: 2}).WithCondition("Balance", "=", 1).ReturnOld(&old).CreateOrUpdate())
		if want := (Account{ID: "a", Balance: 1}); old != want {
			t.Errorf("CreateOrUpdate replaced %+v, want %+v", old, want)
		}
		old = untouched
		wants(t, db.Model(Account{ID: "a"}).WithCondition("Balance", "=", 1).ReturnOld(&old).Delete(), tabletheory.ErrConditionFailed)
		if old != untouched {
			t.Errorf("a refused delete read %+v", old)
		}
		mustNot(t, db.Model(Account{ID: "a"}).ReturnOld(&old).Delete())
		if want := (Account{ID: "a", Balance: 2}); old != want {
			t.Errorf("Delete deleted %+v, want %+v", old, want)
		}
		old = untouched
		mustNot(t, db.Model(Account{ID: "a"}).ReturnOld(&old).Delete())
		if old != untouched {
			t.Errorf("a delete without an item read %+v", old)
		}
	})
}

// TestReturnOldOfAnUndecodableItem: the write happens even if the old item of
// another writer cannot be decoded, and the error says so.
func TestReturnOldOfAnUndecodableItem(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		db := tabletheory.New(api)
		putRaw(t, api, table, attrs{"id": str("a"), "balance": str("much")})
		untouched := Account{ID: "nobody"}
		old := untouched
		err := db.Model(&Account{ID: "a", Balance: 2}).ReturnOld(&old).CreateOrUpdate()
		malformed, ok := errors.AsType[*tabletheory.DecodeError](err)
		if !ok || malformed.Path != "balance" || old != untouched {
			t.Errorf("got %v and %+v, want a DecodeError of balance and nothing read", err, old)
		}
		var stored Account
		mustNot(t, db.Model(&stored).Where("ID", "=", "a").First(&stored))
		if stored.Balance != 2 {
			t.Errorf("stored %+v, want the new item", stored)
		}
	})
}

func TestReturnOldIsRefusedByOtherCalls(t *testing.T) {
	t.Parallel()
	db := tabletheory.New(localdynamotest.New(t)) // there is no table: nothing is sent
	var old Account
	account := func() *tabletheory.Query { return db.Model(&Account{ID: "a"}) }
	wants(t, account().ReturnOld(&old).Create(), tabletheory.ErrInvalidQuery, "ReturnOld")
	wants(t, account().ReturnOld(&old).Update("Name"), tabletheory.ErrInvalidQuery, "ReturnOld", "ALL_OLD")
	wants(t, account().ReturnOld(&old).Where("ID", "=", "a").First(&old), tabletheory.ErrInvalidQuery, "ReturnOld")
	wants(t, account().ReturnOld(old).Delete(), tabletheory.ErrInvalidQuery, "*tabletheory_test.Account")
	wants(t, account().ReturnOld(&Order{}).Delete(), tabletheory.ErrInvalidQuery, "*tabletheory_test.Account")
}
