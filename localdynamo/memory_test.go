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

// TestMemory: a DB in memory expires items by the clock of a synctest bubble,
// shares nothing with another one, and is gone once closed.
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
			t.Error("removed before the sweep")
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
