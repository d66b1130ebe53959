package localdynamotest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

var things = aws.String("things")

func createTable(t testing.TB, client *dynamodb.Client) {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            things,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, client *dynamodb.Client, pk string) item {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: item{"pk": str(pk)}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// increment adds one to n, in a transaction.
func increment(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
		Update: &types.Update{
			TableName: things, Key: item{"pk": str("counter")}, UpdateExpression: aws.String("ADD n :one"),
			ExpressionAttributeValues: item{":one": num("1")},
		},
	}}})
	return err
}

func counter(t testing.TB, client *dynamodb.Client) string {
	t.Helper()
	n, _ := get(t, client, "counter")["n"].(*types.AttributeValueMemberN)
	if n == nil {
		return ""
	}
	return n.Value
}

func conflict() error {
	return &types.TransactionCanceledException{
		Message:             aws.String("Transaction cancelled, please refer cancellation reasons for specific reasons [TransactionConflict]"),
		CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict"), Message: aws.String("Transaction is ongoing for the item")}},
	}
}

// TestTransactionConflictIsNotRetried: the conflict is a cancellation reason, and the SDK
// does not retry a canceled transaction. The caller must inspect the reasons.
func TestTransactionConflictIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
			if call.Operation != "TransactWriteItems" {
				return nil
			}
			attempts++
			return conflict()
		}))
		createTable(t, client)
		err := increment(t.Context(), client)
		var canceled *types.TransactionCanceledException
		if !errors.As(err, &canceled) || len(canceled.CancellationReasons) != 1 || aws.ToString(canceled.CancellationReasons[0].Code) != "TransactionConflict" {
			t.Fatalf("got %v", err)
		}
		if got := counter(t, client); got != "" || attempts != 1 {
			t.Errorf("counter is %q after %d attempts, want \"\" after 1", got, attempts)
		}
	})
}

func TestPutConflictIsNotRetried(t *testing.T) {
	t.Parallel()
	client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation != "PutItem" {
			return nil
		}
		return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
	}))
	createTable(t, client)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: item{"pk": str("a")}})
	var conflict *types.TransactionConflictException
	if !errors.As(err, &conflict) || conflict.ErrorMessage() != "Transaction is ongoing for the item" {
		t.Errorf("got %v", err)
	}
	if got := get(t, client, "a"); got != nil {
		t.Errorf("the put is applied: %v", got)
	}
}

// TestLostTransactionReplyIsRetriedWithSameToken: all attempts of a call carry the same
// idempotency token, so a retry after a lost reply is not applied twice.
func TestLostTransactionReplyIsRetriedWithSameToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, apply func()) error {
			in, ok := call.Input.(*dynamodb.TransactWriteItemsInput)
			if !ok {
				return nil
			}
			tokens = append(tokens, aws.ToString(in.ClientRequestToken))
			if len(tokens) == 1 {
				apply()
				return errors.New("reply lost")
			}
			return nil
		}))
		createTable(t, client)
		if err := increment(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if len(tokens) != 2 || tokens[0] == "" || tokens[0] != tokens[1] {
			t.Errorf("tokens of the attempts are %q, want the same token twice", tokens)
		}
		if got := counter(t, client); got != "1" {
			t.Errorf("counter is %s after a retried increment, want 1", got)
		}
	})
}

// TestTransactionInProgressIsRetriedWithSameToken: the SDK retries a conflict with an
// earlier attempt of the same call, with backoff and with the same token.
func TestTransactionInProgressIsRetriedWithSameToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := map[string]int{}
		attempts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
			in, ok := call.Input.(*dynamodb.TransactWriteItemsInput)
			if !ok {
				return nil
			}
			tokens[aws.ToString(in.ClientRequestToken)]++
			if attempts++; attempts < 3 {
				return &types.TransactionInProgressException{Message: aws.String("The transaction with the given request token is already in progress.")}
			}
			return nil
		}))
		createTable(t, client)
		began := time.Now()
		if err := increment(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if attempts != 3 || len(tokens) != 1 || tokens[""] != 0 {
			t.Errorf("%d attempts with tokens %v, want 3 with the same token", attempts, tokens)
		}
		if got := counter(t, client); got != "1" {
			t.Errorf("counter is %s, want 1", got)
		}
		if time.Since(began) == 0 {
			t.Error("no backoff between the attempts")
		}
	})
}

func TestLostPutReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lose := true
		client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, apply func()) error {
			if call.Operation != "PutItem" || !lose {
				return nil
			}
			lose = false
			apply()
			return errors.New("reply lost")
		}))
		createTable(t, client)
		// The condition of the retry fails on the item that the first attempt wrote.
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: things, Item: item{"pk": str("a")}, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		})
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) {
			t.Fatalf("got %v, want a failed condition of the retry", err)
		}
		if get(t, client, "a") == nil {
			t.Error("the item does not exist; the first attempt is not applied")
		}
	})
}

func TestBrokenConnectionUnwrapsToCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the cable")
		attempts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(func(context.Context, wire.Call, func()) error {
			attempts++
			return cause
		}))
		_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: things})
		if !errors.Is(err, cause) {
			t.Errorf("got %v, want it to wrap %v", err, cause)
		}
		if attempts != 3 {
			t.Errorf("%d attempts, want the SDK's 3", attempts)
		}
	})
}

// TestThrottlingIsRetried: the backoff takes no real time in a bubble.
func TestThrottlingIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
			attempts++
			return &types.ProvisionedThroughputExceededException{Message: aws.String("The level of configured provisioned throughput for the table was exceeded.")}
		}))
		_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: things})
		var throttled *types.ProvisionedThroughputExceededException
		if !errors.As(err, &throttled) {
			t.Errorf("got %v", err)
		}
		if attempts != 3 {
			t.Errorf("%d attempts, want 3", attempts)
		}
	})
}

// TestServerFaultIsRetried: a failing store is a response with status 500.
func TestServerFaultIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(func(context.Context, wire.Call, func()) error {
			attempts++
			return fmt.Errorf("wrapped: %w", &types.InternalServerError{Message: aws.String("Internal server error")})
		}))
		_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: things})
		var fault *types.InternalServerError
		if !errors.As(err, &fault) || attempts != 3 {
			t.Errorf("got %v after %d attempts, want an InternalServerError after 3", err, attempts)
		}
	})
}

// TestDeadline: a call without a response returns at its deadline.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := localdynamotest.New(t, localdynamotest.Intercept(func(ctx context.Context, _ wire.Call, _ func()) error {
			<-ctx.Done()
			return nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: things})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

// TestExpiryInBubble: the engine's sweep removes expired items by the bubble's clock.
func TestExpiryInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := localdynamotest.New(t)
		createTable(t, client)
		expire(t, client)
		time.Sleep(time.Minute)
		if get(t, client, "a") == nil {
			t.Error("the item is gone; expired items are visible until they are swept")
		}
		time.Sleep(time.Hour)
		if got := get(t, client, "a"); got != nil {
			t.Errorf("the item still exists an hour after it expired: %v", got)
		}
	})
}

// expire writes an item that expires in 30 seconds.
func expire(t testing.TB, client *dynamodb.Client) {
	t.Helper()
	if _, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: things, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	until := num(fmt.Sprint(time.Now().Add(30 * time.Second).Unix()))
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: item{"pk": str("a"), "until": until}}); err != nil {
		t.Fatal(err)
	}
}

func TestExpiryByClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	client, db := localdynamotest.Open(t, localdynamotest.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	createTable(t, client)
	expire(t, client)
	ahead.Store(int64(time.Minute))
	if n, err := db.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d items, %v; want 1", n, err)
	}
	if got := get(t, client, "a"); got != nil {
		t.Errorf("the item still exists: %v", got)
	}
}

// TestTokenExpiry: an idempotency token expires after ten minutes.
func TestTokenExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := localdynamotest.New(t)
		createTable(t, client)
		in := &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: aws.String("token"),
			TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: things, Key: item{"pk": str("counter")}, UpdateExpression: aws.String("ADD n :one"),
				ExpressionAttributeValues: item{":one": num("1")},
			}}},
		}
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{0, "1"}, {9 * time.Minute, "1"}, {2 * time.Minute, "2"}} {
			time.Sleep(step.wait)
			if _, err := client.TransactWriteItems(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := counter(t, client); got != step.want {
				t.Errorf("counter is %s, want %s", got, step.want)
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	client := localdynamotest.New(t, localdynamotest.Intercept(func(context.Context, wire.Call, func()) error {
		calls.Add(1)
		return nil
	}))
	createTable(t, client)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				if err := increment(t.Context(), client); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := counter(t, client); got != "200" {
		t.Errorf("counter is %s, want 200", got)
	}
	if got := calls.Load(); got < 202 {
		t.Errorf("intercepted %d calls, want at least 202", got)
	}
}
