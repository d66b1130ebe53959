package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

func TestBatchWriteAndDelete(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api, atNoon())
		orders := make([]Order, 60)
		for i := range orders {
			orders[i] = Order{Customer: "ada", Number: int64(i), Status: "open"}
		}
		mustNot(t, db.Model(&Order{}).BatchCreate(orders))
		for i := range orders {
			if orders[i].Version != 1 || !orders[i].CreatedAt.Equal(noon) {
				t.Fatalf("model %d has version %d, created %v", i, orders[i].Version, orders[i].CreatedAt)
			}
		}
		pointers := []*Order{&orders[0]}
		mustNot(t, db.Model(&Order{}).BatchCreate(&pointers))
		if stored := getRaw(t, api, table, orderKey("ada", "0")); orders[0].Version != 2 || stored["version"].(*types.AttributeValueMemberN).Value != "2" {
			t.Errorf("after two writes the version is %d, stored %v", orders[0].Version, stored["version"])
		}

		mustNot(t, db.Model(&Order{}).BatchDelete([]any{&orders[1], orders[2]}))
		deletes := []any{}
		for i := 10; i < 60; i++ {
			deletes = append(deletes, orders[i])
		}
		mustNot(t, db.Model(&Order{}).BatchWrite([]any{&Order{Customer: "bob", Number: 1, Status: "new"}, Order{Customer: "bob", Number: 2, Status: "new"}}, deletes))
		for customer, want := range map[string]int64{"ada": 8, "bob": 2} {
			n, err := db.Model(&Order{}).Where("Customer", "=", customer).Count()
			if err != nil || n != want {
				t.Errorf("%s has %d orders, %v; want %d", customer, n, err, want)
			}
		}

		accountTable(t, api)
		mustNot(t, db.Model(&Account{}).BatchCreate([]Account{{ID: "a"}, {ID: "b"}, {ID: "c"}}))
		mustNot(t, db.Model(&Account{}).BatchDelete([]any{"a", Account{ID: "b"}}))
		if n, err := countScan(db); err != nil || n != 1 {
			t.Errorf("%d accounts, %v; want 1", n, err)
		}
		mustNot(t, db.Model(&Account{}).BatchWrite(nil, nil))
	})
}

func countScan(db *tabletheory.DB) (int, error) {
	var accounts []Account
	err := db.Model(&Account{}).Scan(&accounts)
	return len(accounts), err
}

func TestInvalidBatches(t *testing.T) {
	t.Parallel()
	sent := 0
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation == "BatchWriteItem" {
			sent++
		}
		return nil
	}))
	accountTable(t, api)
	orderTable(t, api)
	numberTable(t, api)
	db := tabletheory.New(api)
	q := func() interface {
		BatchCreate(any) error
		BatchDelete([]any) error
		BatchWrite([]any, []any) error
	} {
		return db.Model(&Account{})
	}
	for name, err := range map[string]error{
		"an item twice":         q().BatchCreate([]Account{{ID: "a"}, {ID: "b"}, {ID: "a"}}),
		"a put and a deletion":  q().BatchWrite([]any{&Account{ID: "a"}}, []any{"a"}),
		"a number twice":        db.Model(&Numbered{}).BatchDelete([]any{tabletheory.Number("1"), tabletheory.Number("1.0")}),
		"no slice":              q().BatchCreate(Account{ID: "a"}),
		"nil":                   q().BatchCreate(nil),
		"another model":         q().BatchWrite([]any{&Order{Customer: "ada", Number: 1, Status: "x"}}, nil),
		"an empty key":          q().BatchDelete([]any{""}),
		"a key of another type": q().BatchDelete([]any{1}),
		"an incomplete key":     db.Model(&Order{}).BatchDelete([]any{"ada"}),
	} {
		t.Run(name, func(t *testing.T) { wants(t, err, tabletheory.ErrInvalidQuery) })
	}
	for name, err := range map[string]error{
		"no struct":           q().BatchWrite([]any{"a"}, nil),
		"an item with no key": q().BatchCreate([]Account{{ID: "a"}, {Name: "x"}}),
	} {
		t.Run(name, func(t *testing.T) { wants(t, err, tabletheory.ErrInvalidModel) })
	}
	if sent != 0 {
		t.Errorf("%d batches were sent", sent)
	}
}

// hesitant processes at most atMost writes of each batch and returns the others
// as unprocessed, like DynamoDB at its capacity limit.
type hesitant struct {
	*dynamodb.Client
	atMost int
	calls  int
}

func (h *hesitant) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	h.calls++
	for table, requests := range in.RequestItems {
		if len(requests) <= h.atMost {
			break
		}
		out := &dynamodb.BatchWriteItemOutput{UnprocessedItems: map[string][]types.WriteRequest{table: requests[h.atMost:]}}
		if h.atMost == 0 {
			return out, nil
		}
		_, err := h.Client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: requests[:h.atMost]}}, options...)
		return out, err
	}
	return h.Client.BatchWriteItem(ctx, in, options...)
}

func accounts(n int) []Account {
	list := make([]Account, n)
	for i := range list {
		list[i] = Account{ID: fmt.Sprint(i)}
	}
	return list
}

func TestUnprocessedWritesAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &hesitant{Client: bareAccounts(t), atMost: 7}
		db := tabletheory.New(api)
		mustNot(t, db.Model(&Account{}).BatchCreate(accounts(60)))
		if n, err := countScan(db); err != nil || n != 60 {
			t.Errorf("%d accounts, %v; want 60", n, err)
		}
		deletes := make([]any, 60)
		for i := range deletes {
			deletes[i] = fmt.Sprint(i)
		}
		mustNot(t, db.Model(&Account{}).BatchDelete(deletes))
		if n, err := countScan(db); err != nil || n != 0 {
			t.Errorf("%d accounts, %v; want none", n, err)
		}
	})
}

// bareAccounts returns a client of an engine with a table of accounts, for use
// inside a synctest bubble.
func bareAccounts(t *testing.T, options ...localdynamotest.Option) *dynamodb.Client {
	t.Helper()
	api := localdynamotest.New(t, options...)
	_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("accounts"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
	})
	mustNot(t, err)
	return api
}

func TestBatchStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &hesitant{Client: bareAccounts(t), atMost: 0}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := tabletheory.New(api).WithContext(ctx).Model(&Account{}).BatchCreate(accounts(3))
		wants(t, err, tabletheory.ErrThrottled, "0 of 3", "accounts")
		wants(t, err, context.DeadlineExceeded)
		if api.calls < 10 || api.calls > 60 {
			t.Errorf("%d calls in a minute", api.calls)
		}
	})
}

// The error and the models tell what was written.
func TestBatchErrorReportsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		batches := 0
		api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
			if call.Operation != "BatchWriteItem" {
				return nil
			}
			if batches++; batches > 2 {
				return &types.ResourceNotFoundException{Message: aws.String("gone")}
			}
			return nil
		}))
		_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("orders"), BillingMode: types.BillingModePayPerRequest,
			KeySchema: keySchema("customer", "number"), AttributeDefinitions: definitions("customer", "S", "number", "N"),
		})
		mustNot(t, err)
		orders := make([]Order, 60)
		for i := range orders {
			orders[i] = Order{Customer: "ada", Number: int64(i), Status: "open"}
		}
		err = tabletheory.New(api).Model(&Order{}).BatchCreate(orders)
		wants(t, err, tabletheory.ErrTableNotFound, "50 of 60", "orders")
		failed, ok := errors.AsType[*tabletheory.BatchError](err)
		if !ok || failed.Written != 50 || failed.Total != 60 || len(failed.Left) != 10 || failed.Left[0] != 50 || failed.Left[9] != 59 {
			t.Fatalf("got %+v", failed)
		}
		if outcome := tabletheory.OutcomeOf(err); outcome != tabletheory.Unknown {
			t.Errorf("outcome of an incomplete batch: %v", outcome)
		}
		for i := range orders {
			if written := orders[i].Version == 1; written != (i < 50) {
				t.Errorf("model %d has version %d", i, orders[i].Version)
			}
		}
	})
}

// DynamoDB refuses a whole batch if it can process none of it.
func TestThrottledBatchIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		batches := 0
		api := bareAccounts(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
			if call.Operation != "BatchWriteItem" {
				return nil
			}
			if batches++; batches < 10 {
				return &types.ProvisionedThroughputExceededException{Message: aws.String("slow down")}
			}
			return nil
		}))
		db := tabletheory.New(api)
		mustNot(t, db.Model(&Account{}).BatchCreate(accounts(3)))
		if n, err := countScan(db); err != nil || n != 3 {
			t.Errorf("%d accounts, %v; want 3", n, err)
		}
	})
}

// strange returns writes as unprocessed that were never sent.
type strange struct{ *dynamodb.Client }

func (strange) BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return &dynamodb.BatchWriteItemOutput{UnprocessedItems: map[string][]types.WriteRequest{
		"accounts": {{}, {DeleteRequest: &types.DeleteRequest{Key: attrs{"id": str("other")}}}},
	}}, nil
}

func TestBatchRefusesUnknownUnprocessedItems(t *testing.T) {
	t.Parallel()
	err := tabletheory.New(strange{bareAccounts(t)}).Model(&Account{}).BatchCreate(accounts(1))
	if err == nil || !strings.Contains(err.Error(), "not sent") {
		t.Errorf("got %v", err)
	}
}

// Blob has items of any size and kind.
type Blob struct {
	ID   string `theorydb:"pk"`
	Text string
	Data []byte
	List []any
}

func (Blob) TableName() string { return "blobs" }

// bodies is an HTTP client that measures requests and answers that all
// succeeded.
type bodies struct{ sizes []int }

func (b *bodies) Do(r *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, r.Body)
	b.sizes = append(b.sizes, int(n))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"UnprocessedItems":{}}`))}, err
}

func TestBatchRequestsStayBelow16MB(t *testing.T) {
	t.Parallel()
	sent := &bodies{}
	db := tabletheory.New(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", HTTPClient: sent, DisableValidateResponseChecksum: true,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}))
	blobs := make([]Blob, 25)
	for i := range blobs[:8] {
		// The worst case: an item of 400 KB of characters that JSON escapes.
		blobs[i] = Blob{ID: fmt.Sprint(i), Text: strings.Repeat("\x01", 399_000)}
	}
	mustNot(t, db.Model(&Blob{}).BatchCreate(blobs[:8]))
	for i := range blobs {
		blobs[i] = Blob{ID: fmt.Sprint(i), Data: make([]byte, 250_000), List: []any{strings.Repeat("<é\u2028", 24_000), 1, true, nil, map[string]any{"a": []byte("b")}}}
	}
	mustNot(t, db.Model(&Blob{}).BatchCreate(blobs))
	total := 0
	for _, size := range sent.sizes {
		total += size
		if size > 16<<20 {
			t.Errorf("a request of %d bytes", size)
		}
	}
	if len(sent.sizes) != 4 || total < 30<<20 {
		t.Errorf("%d requests of %d bytes in all: %v", len(sent.sizes), total, sent.sizes)
	}
}
