package localdynamo_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func setTTL(t *testing.T, db *localdynamo.DB, name string, on bool) error {
	t.Helper()
	_, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: things, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &name, Enabled: &on},
	})
	return err
}

func sweep(t *testing.T, db *localdynamo.DB) int {
	t.Helper()
	n, err := db.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	describe := func() types.TimeToLiveDescription {
		out, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: things})
		if err != nil {
			t.Fatal(err)
		}
		return *out.TimeToLiveDescription
	}
	equal(t, describe().TimeToLiveStatus, types.TimeToLiveStatusDisabled)
	wantInvalid(t, setTTL(t, db, "ttl", false), "already disabled")
	wantInvalid(t, setTTL(t, db, "", true), "attributeName")
	if err := setTTL(t, db, "ttl", true); err != nil {
		t.Fatal(err)
	}
	equal(t, describe(), types.TimeToLiveDescription{AttributeName: aws.String("ttl"), TimeToLiveStatus: types.TimeToLiveStatusEnabled})
	wantInvalid(t, setTTL(t, db, "ttl", true), "already enabled")
	wantInvalid(t, setTTL(t, db, "other", true), "different AttributeName")
	wantInvalid(t, setTTL(t, db, "other", false), "different AttributeName")
	if err := setTTL(t, db, "ttl", false); err != nil {
		t.Fatal(err)
	}
	equal(t, describe().TimeToLiveStatus, types.TimeToLiveStatusDisabled)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(1_700_000_000)
	db := open(t, localdynamo.Options{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	with := func(sk string, ttl types.AttributeValue) item {
		return item{"pk": str("a"), "sk": str(sk), "ttl": ttl}
	}
	at := func(d int64) types.AttributeValue { return num(fmt.Sprint(now.Load() + d)) }
	put(t, db, with("past", at(-1)))
	put(t, db, with("fraction", num("1699999999.9")))
	put(t, db, with("now", at(0)))
	put(t, db, with("future", at(1)))
	put(t, db, with("ancient", at(-5*365*86400)))
	put(t, db, with("milliseconds", num("1700000000000")))
	put(t, db, with("string", str("1")))
	put(t, db, key("a", "none"))
	equal(t, sweep(t, db), 0) // TTL is not enabled
	if err := setTTL(t, db, "ttl", true); err != nil {
		t.Fatal(err)
	}
	if get(t, db, "a", "past") == nil {
		t.Error("an expired item must be readable until a sweep removes it")
	}
	equal(t, sweep(t, db), 2)
	for sk, want := range map[string]bool{"past": false, "fraction": false, "now": true, "future": true, "ancient": true, "milliseconds": true, "string": true, "none": true} {
		if got := get(t, db, "a", sk) != nil; got != want {
			t.Errorf("%s: %v, want %v", sk, got, want)
		}
	}
	// More items than one snapshot reads and one write deletes.
	for i := range 5000 {
		put(t, db, with(fmt.Sprint(i), at(10)))
	}
	now.Add(11)
	equal(t, sweep(t, db), 5002)
	equal(t, sweep(t, db), 0)
}

// TestSweepInBackground: a sweep runs every SweepInterval.
func TestSweepInBackground(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: time.Minute})
		createTable(t, db, "things", types.ScalarAttributeTypeS)
		if err := setTTL(t, db, "ttl", true); err != nil {
			t.Fatal(err)
		}
		put(t, db, item{"pk": str("a"), "sk": str("b"), "ttl": num(fmt.Sprint(time.Now().Unix() + 30))})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if get(t, db, "a", "b") == nil {
			t.Error("the item was removed before the first sweep")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if get(t, db, "a", "b") != nil {
			t.Error("the item was not removed by the sweep")
		}
	})
}
