package tabletheory_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

// errReset makes the server close the connection without a reply.
var errReset = errors.New("connection reset")

// An attempt handles one attempt at a write; nil: it is applied and answered.
type attempt func(apply func()) error

func replyLost(apply func()) error { apply(); return errReset }
func requestLost(func()) error     { return errReset }
func throttled(func()) error       { return &types.ProvisionedThroughputExceededException{} }

// A lossyServer is an engine behind a real socket. It answers the next writes
// from a script and records the operations.
type lossyServer struct {
	engine *localdynamo.DB
	api    *dynamodb.Client
	db     *tabletheory.DB

	mu         sync.Mutex
	script     []attempt
	operations []string
}

func newLossyServer(t *testing.T) *lossyServer {
	t.Helper()
	s := &lossyServer{engine: localdynamo.OpenMemory(localdynamo.Options{})}
	t.Cleanup(func() { mustNot(t, s.engine.Close()) })
	handler, err := wire.New(s.engine, wire.Config{Intercept: s.intercept})
	mustNot(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.api = dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:     retry.NewStandard(func(o *retry.StandardOptions) { o.Backoff = retry.BackoffDelayerFunc(noDelay) }),
	})
	s.db = tabletheory.New(s.api)
	orderTable(t, s.api)
	accountTable(t, s.api)
	return s
}

func noDelay(int, error) (time.Duration, error) { return 0, nil }

func (s *lossyServer) intercept(_ context.Context, call wire.Call, apply func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(call.Operation, "Table") || call.Operation == "GetItem" {
		return nil
	}
	s.operations = append(s.operations, call.Operation)
	if len(s.script) == 0 {
		return nil
	}
	next := s.script[0]
	s.script = s.script[1:]
	return next(apply)
}

// plays scripts the next attempts.
func (s *lossyServer) plays(script ...attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.operations = script, nil
}

func (s *lossyServer) wantOperations(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.script) != 0 || !slices.Equal(s.operations, want) {
		t.Errorf("the server received %q with %d answers left, want %q", s.operations, len(s.script), want)
	}
}

// A versioned write whose reply is lost fails on its own effect when the SDK
// retries it. That is a success.
func TestLostReplyOfAnAppliedWriteIsSuccess(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	order := &Order{Customer: "ada", Number: 1, Status: "open", Tags: []string{"b", "a"}, Lines: []Line{{"pen", 3}}}

	s.plays(replyLost)
	mustNot(t, s.db.Model(order).Create())
	s.wantOperations(t, "PutItem", "PutItem")

	s.plays(replyLost)
	order.Status = "paid"
	mustNot(t, s.db.Model(order).CreateOrUpdate())
	s.wantOperations(t, "PutItem", "PutItem")

	s.plays(replyLost)
	order.Status, order.Tags = "sent", nil
	mustNot(t, s.db.Model(order).Update())
	s.wantOperations(t, "UpdateItem", "UpdateItem")

	s.plays(replyLost)
	var updated Order
	mustNot(t, s.db.Model(order).UpdateBuilder().Set("Status", "done").Remove("Lines").ConditionVersion(3).ExecuteWithResult(&updated))
	s.wantOperations(t, "UpdateItem", "UpdateItem")
	if updated.Version != 4 || updated.Status != "done" || updated.Total != order.Total {
		t.Errorf("the result is %+v", updated)
	}
	if order.Version != 3 {
		t.Errorf("the model has version %d after three writes, want 3", order.Version)
	}
}

// If the stored item is another one, the write may have been applied and
// overwritten.
func TestLostReplyWithAnotherItemIsUnknown(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	// Not version 1, which a deleted and recreated item has.
	mustNot(t, s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open", Version: 5}).Create())
	overwritten := func(apply func()) error {
		apply()
		in := &dynamodb.UpdateItemInput{
			TableName: new(Order{}.TableName()), Key: orderKey("ada", "1"), UpdateExpression: new("SET #s = :s ADD version :one"),
			ExpressionAttributeNames: map[string]string{"#s": "status"}, ExpressionAttributeValues: attrs{":s": str("stolen"), ":one": num("1")},
		}
		// Not through the server, whose mutex is held.
		_, err := s.engine.UpdateItem(t.Context(), in)
		return errors.Join(err, errReset)
	}
	for name, write := range map[string]func(*Order) error{
		"put":    func(o *Order) error { return s.db.Model(o).CreateOrUpdate() },
		"update": func(o *Order) error { return s.db.Model(o).Update("Total") },
		"delete": func(o *Order) error { return s.db.Model(o).Delete() },
	} {
		t.Run(name, func(t *testing.T) {
			order := &Order{}
			mustNot(t, s.db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).First(order))
			before := order.Version
			s.plays(overwritten)
			err := write(order)
			wants(t, err, tabletheory.ErrUnknownOutcome)
			if tabletheory.OutcomeOf(err) != tabletheory.Unknown || errors.Is(err, tabletheory.ErrConditionFailed) || errors.Is(err, tabletheory.ErrVersionConflict) {
				t.Errorf("%v: claims that nothing was changed", err)
			}
			failed, ok := errors.AsType[*tabletheory.ConditionError](err)
			if !ok || failed.Item["status"] == nil {
				t.Errorf("%v lacks the stored item", err)
			}
			if order.Version != before {
				t.Errorf("the model has version %d, want %d", order.Version, before)
			}
		})
	}
}

// Only the lost reply had the replaced item.
func TestLostReplyWithOldItemIsUnknown(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	order := &Order{Customer: "ada", Number: 1, Status: "open"}
	mustNot(t, s.db.Model(order).Create())
	s.plays(replyLost)
	var old Order
	wants(t, s.db.Model(order).ReturnOld(&old).CreateOrUpdate(), tabletheory.ErrUnknownOutcome)
	s.plays(replyLost)
	wants(t, s.db.Model(order).ReturnOld(&old).Delete(), tabletheory.ErrUnknownOutcome)
}

// A failed condition is definite if no earlier attempt can have been applied.
func TestConditionAfterThrottlingIsDefinite(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	mustNot(t, s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).Create())
	s.plays(throttled)
	err := s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).Create()
	wants(t, err, tabletheory.ErrConditionFailed)
	if got := tabletheory.OutcomeOf(err); got != tabletheory.ConditionFailed {
		t.Errorf("the outcome is %v", got)
	}
	s.wantOperations(t, "PutItem", "PutItem")
}

// Whatever the reply to the last attempt, an earlier attempt whose reply was
// lost may have been applied.
func TestRefusalAfterALostReplyIsUnknown(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	for _, answer := range []error{&types.TransactionConflictException{}, &types.ResourceNotFoundException{}, &types.ItemCollectionSizeLimitExceededException{}} {
		refused := func(func()) error { return answer }
		s.plays(replyLost, refused)
		err := s.db.Model(&Account{ID: "a"}).CreateOrUpdate()
		wants(t, err, tabletheory.ErrUnknownOutcome)
		if got := tabletheory.OutcomeOf(err); got != tabletheory.Unknown {
			t.Errorf("%v: the outcome is %v", err, got)
		}
		s.plays(replyLost, refused)
		err = credit(t.Context(), tabletheory.New(s.api, tabletheory.WithRetries(0)))
		if got := tabletheory.OutcomeOf(err); got != tabletheory.Unknown {
			t.Errorf("transaction: %v: the outcome is %v", err, got)
		}
	}
}

// An Add whose reply is lost is applied once.
func TestAddIsAppliedOnce(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	update := func() *tabletheory.UpdateBuilder { return s.db.Model(&Account{ID: "a"}).UpdateBuilder() }
	s.plays(replyLost)
	mustNot(t, update().Add("Balance", 10).Execute())
	s.wantOperations(t, "TransactWriteItems", "TransactWriteItems")
	s.plays(requestLost)
	mustNot(t, update().Increment("Balance").Execute())
	if got := balance(t, s.db); got != 11 {
		t.Errorf("the balance is %d, want 11", got)
	}
	wants(t, update().Decrement("Balance").Condition("Balance", ">", 100).Execute(), tabletheory.ErrConditionFailed)

	order := &Order{Customer: "ada", Number: 1, Status: "open"}
	mustNot(t, s.db.Model(order).Create())
	lines := func() *tabletheory.UpdateBuilder { return s.db.Model(order).UpdateBuilder() }
	s.plays(replyLost)
	mustNot(t, lines().AppendToList("Lines", []Line{{"pen", 1}, {"ink", 2}}).Execute())
	s.plays(replyLost)
	mustNot(t, lines().RemoveFromListAt("Lines", 0).Execute())
	s.plays(replyLost)
	mustNot(t, lines().SetListElement("Lines", 9, Line{"cap", 3}).Execute())
	s.wantOperations(t, "TransactWriteItems", "TransactWriteItems")
	mustNot(t, s.db.Model(&Order{}).Where("Customer", "=", "ada").Where("Number", "=", 1).First(order))
	if want := []Line{{"ink", 2}, {"cap", 3}}; !slices.Equal(order.Lines, want) {
		t.Errorf("the lines are %v, want %v", order.Lines, want)
	}
}

// A transaction returns no attributes: an Add with a result is attempted once,
// unless it certainly was not applied.
func TestAddWithResultIsNotRetried(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	var account Account
	add := func() error {
		return s.db.Model(&Account{ID: "a"}).UpdateBuilder().Add("Balance", 10).ExecuteWithResult(&account)
	}
	s.plays(replyLost)
	if err := add(); tabletheory.OutcomeOf(err) != tabletheory.Unknown {
		t.Errorf("%v: the outcome is %v", err, tabletheory.OutcomeOf(err))
	}
	s.wantOperations(t, "UpdateItem")
	s.plays(throttled, throttled)
	mustNot(t, add())
	s.wantOperations(t, "UpdateItem", "UpdateItem", "UpdateItem")
	if account.Balance != 20 {
		t.Errorf("the balance is %d, want 20", account.Balance)
	}
}

// A version condition keeps an Add from being applied twice.
func TestVersionedAddNeedsNoTransaction(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	mustNot(t, s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).Create())
	s.plays()
	mustNot(t, s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).UpdateBuilder().Add("Total", 5).ConditionVersion(1).Execute())
	s.wantOperations(t, "UpdateItem")
	s.plays(replyLost)
	wants(t, s.db.Model(&Order{Customer: "ada", Number: 1, Status: "open"}).UpdateBuilder().Add("Total", 5).ConditionVersion(2).Execute(), tabletheory.ErrUnknownOutcome)
}
