package localdynamo_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// TestInMemory: a DB in memory expires items by the clock of a synctest bubble,
// shares nothing with other DBs, and loses its contents when it is closed.
func TestInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, other := localdynamo.OpenMemory(localdynamo.Options{}), localdynamo.OpenMemory(localdynamo.Options{})
		createTable(t, db, "things", types.ScalarAttributeTypeS)
		createTable(t, other, "things", types.ScalarAttributeTypeS)
		if err := setTTL(t, db, "ttl", true); err != nil {
			t.Fatal(err)
		}
		soon := time.Now().Add(localdynamo.DefaultSweepInterval / 2).Unix()
		put(t, db, item{"pk": str("p"), "sk": str("expires"), "ttl": num(strconv.FormatInt(soon, 10))})
		put(t, db, key("p", "stays"))
		time.Sleep(localdynamo.DefaultSweepInterval - time.Second)
		if get(t, db, "p", "expires") == nil {
			t.Error("the item was removed before the sweep")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		equal(t, get(t, db, "p", "expires"), item(nil))
		equal(t, get(t, db, "p", "stays"), key("p", "stays"))
		equal(t, get(t, other, "p", "stays"), item(nil))
		for _, db := range []*localdynamo.DB{db, other} {
			if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
				t.Error(err)
			}
		}
		if _, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", "stays")}); !errors.Is(err, localdynamo.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
