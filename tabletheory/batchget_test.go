package tabletheory_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
)

// Reading has a number and bytes as its key.
type Reading struct {
	Sensor float64 `theorydb:"pk"`
	At     []byte  `theorydb:"sk"`
}

func (Reading) TableName() string { return os.Getenv("TABLETHEORY_READINGS") }

func binary(b ...byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func TestBatchGetReturnsItemsInKeyOrder(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		var keys []any
		var want []Account
		for i := range 250 {
			id := "account-" + strconv.Itoa(i*7919%250)
			switch i % 3 {
			case 0:
				keys = append(keys, id)
			case 1:
				keys = append(keys, Account{ID: id}, &Account{ID: id})
			case 2:
				keys = append(keys, id, "absent-"+id)
			}
			putRaw(t, api, table, attrs{"id": str(id), "name": str("Name of " + id), "balance": integer(int64(i))})
			want = append(want, Account{ID: id, Name: "Name of " + id, Balance: int64(i)})
		}
		db := tabletheory.New(api)
		var got []Account
		check(t, db.Model(Account{}).ConsistentRead().BatchGet(keys, &got))
		same(t, got, want)

		var pointers []*Account
		check(t, db.Model(Account{}).Select("Balance").BatchGet(keys[:1], &pointers))
		same(t, pointers, []*Account{{Balance: want[0].Balance}})

		check(t, db.Model(Account{}).BatchGet(nil, &got))
		same(t, got, []Account{})
	})
}

// DynamoDB treats different spellings of a number as one key, and refuses a
// batch with duplicate keys.
func TestBatchGetDeduplicatesEqualNumbers(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := createTable(t, api, "TABLETHEORY_READINGS", &dynamodb.CreateTableInput{
			KeySchema: keySchema("sensor", "at"), AttributeDefinitions: definitions("sensor", "N", "at", "B"),
		})
		putRaw(t, api, table, attrs{"sensor": num("1e25"), "at": binary(1, 0)})
		putRaw(t, api, table, attrs{"sensor": num("-0.50"), "at": binary(2)})
		var got []Reading
		check(t, tabletheory.New(api).Model(Reading{}).BatchGet([]any{
			Reading{Sensor: -0.5, At: []byte{2}}, Reading{Sensor: 1e25, At: []byte{1, 0}}, Reading{Sensor: 1e25, At: []byte{1, 0}}, Reading{Sensor: 1e25, At: []byte{1}},
		}, &got))
		same(t, got, []Reading{{Sensor: -0.5, At: []byte{2}}, {Sensor: 1e25, At: []byte{1, 0}}})
	})
}

// A response has at most 16 MB; DynamoDB leaves the rest unprocessed.
func TestBatchGetBeyondResponseLimit(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		name := strings.Repeat("n", 390<<10)
		var keys []any
		for i := range 50 {
			keys = append(keys, strconv.Itoa(i))
			putRaw(t, api, table, attrs{"id": str(strconv.Itoa(i)), "name": str(name)})
		}
		var got []Account
		check(t, tabletheory.New(api).Model(Account{}).BatchGet(keys, &got))
		if len(got) != len(keys) {
			t.Fatalf("%d of %d accounts were read", len(got), len(keys))
		}
		for i, account := range got {
			if account.ID != keys[i] || account.Name != name {
				t.Errorf("account %d is %s with a name of %d bytes", i, account.ID, len(account.Name))
			}
		}
	})
}

// slowBatches processes one key of each batch.
type slowBatches struct {
	*dynamodb.Client
	at []time.Time
}

func (c *slowBatches) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	c.at = append(c.at, time.Now())
	first, left := map[string]types.KeysAndAttributes{}, map[string]types.KeysAndAttributes{}
	for table, keys := range in.RequestItems {
		rest := keys
		keys.Keys, rest.Keys = keys.Keys[:1], keys.Keys[1:]
		first[table] = keys
		if len(rest.Keys) > 0 {
			left[table] = rest
		}
	}
	out, err := c.Client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: first}, options...)
	if err == nil {
		out.UnprocessedKeys = left
	}
	return out, err
}

// A table that is throttled processes a part of each batch: the rest is requested with
// exponential backoff, as AWS asks for.
func TestBatchGetBacksOffWhileThrottledInPart(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small items": 10, "large items": 399 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := &slowBatches{Client: localdynamotest.New(t)}
				accountTable(t, api.Client)
				var keys []any
				for i := range 10 {
					keys = append(keys, strconv.Itoa(i))
					putRaw(t, api.Client, "accounts", attrs{"id": str(strconv.Itoa(i)), "name": str(strings.Repeat("n", size))})
				}
				var got []Account
				check(t, tabletheory.New(api).Model(Account{}).BatchGet(keys, &got))
				if len(got) != len(keys) || len(api.at) != len(keys) {
					t.Fatalf("%d items by %d requests, want 10 of both", len(got), len(api.at))
				}
				var waited time.Duration
				for i := 1; i < len(api.at); i++ {
					if !api.at[i].After(api.at[i-1]) {
						t.Errorf("request %d was made without a pause", i)
					}
					waited = api.at[i].Sub(api.at[0])
				}
				// Nine means from 25 ms on that double up to 1.6 s have 6.4 s together; one
				// pause after another of 25 ms would be at most half a second.
				if waited < time.Second {
					t.Errorf("waited %s altogether, want pauses that grow", waited)
				}
			})
		})
	}
}

// A response that is full is no reason to wait.
func TestBatchGetDoesNotWaitForLargeItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &throttledBatches{Client: localdynamotest.New(t)}
		accountTable(t, api.Client)
		var keys []any
		for i := range 90 {
			keys = append(keys, strconv.Itoa(i))
			putRaw(t, api.Client, "accounts", attrs{"id": str(strconv.Itoa(i)), "name": str(strings.Repeat("n", 390<<10))})
		}
		var got []Account
		check(t, tabletheory.New(api).Model(Account{}).BatchGet(keys, &got))
		if len(got) != len(keys) || len(api.at) < 3 {
			t.Fatalf("%d items by %d requests, want 90 items by 3 or more", len(got), len(api.at))
		}
		for i := 1; i < len(api.at); i++ {
			if api.at[i].After(api.at[i-1]) {
				t.Errorf("request %d was made after a pause", i)
			}
		}
	})
}

// throttledBatches leaves the first batches unprocessed.
type throttledBatches struct {
	*dynamodb.Client
	left int
	at   []time.Time // of all batches
}

func (c *throttledBatches) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	c.at = append(c.at, time.Now())
	if c.left == 0 {
		return c.Client.BatchGetItem(ctx, in, options...)
	}
	c.left--
	return &dynamodb.BatchGetItemOutput{UnprocessedKeys: in.RequestItems}, nil
}

func TestBatchGetBacksOffWhileThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &throttledBatches{Client: localdynamotest.New(t), left: 4}
		table := "accounts"
		_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
		})
		check(t, err)
		putRaw(t, api.Client, table, attrs{"id": str("a"), "balance": num("5")})
		db := tabletheory.New(api)
		var got []Account
		check(t, db.Model(Account{}).BatchGet([]any{"a"}, &got))
		same(t, got, []Account{{ID: "a", Balance: 5}})
		if len(api.at) != 5 {
			t.Fatalf("%d requests were made, want 5", len(api.at))
		}
		for i := 1; i < len(api.at); i++ {
			if !api.at[i].After(api.at[i-1]) {
				t.Errorf("request %d was made without a pause", i)
			}
		}

		api.left = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = db.WithContext(ctx).Model(Account{}).BatchGet([]any{"a", "b"}, &got)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, tabletheory.ErrThrottled) || !strings.Contains(err.Error(), "2 of 2 keys") {
			t.Errorf("got error %v, want a deadline that was exceeded with 2 of 2 keys unprocessed", err)
		}
		same(t, got, []Account{{ID: "a", Balance: 5}})
	})
}
