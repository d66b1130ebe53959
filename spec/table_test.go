package spec_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

const (
	// cacheKey is the page of all rows in the files.
	cacheKey = "example.com/news"
	// purgeLog is the partition key of SEQ and the log.
	purgeLog  = "PURGE"
	tableName = "isr-spec"
)

// partitionKey returns the partition key of cacheKey.
func partitionKey() string { return store.HashedPartition(store.Key{Text: cacheKey}) }

// A table is an in-memory table with a store whose clock and tokens the test sets.
type table struct {
	t         *testing.T
	db        *localdynamo.DB
	clock     *isrtest.Clock
	store     *dynamostore.Store
	tokens    []string // to return next
	generated int      // tokens made up after those
}

func newTable(t *testing.T, nowMS int64, items ...item) *table {
	t.Helper()
	// The rows are from other times: TTL must not delete any.
	db := localdynamo.OpenMemory(localdynamo.Options{Now: func() time.Time { return time.Unix(1, 0) }})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := dynamostore.CreateTable(t.Context(), db, tableName); err != nil {
		t.Fatal(err)
	}
	tb := &table{t: t, db: db, clock: isrtest.NewClock(time.UnixMilli(nowMS))}
	for _, i := range items {
		tb.put(i)
	}
	tb.open("")
	return tb
}

// open creates the store for an owner.
func (tb *table) open(owner string) {
	tb.t.Helper()
	store, err := dynamostore.New(tb.db, tableName, dynamostore.Config{
		Owner: owner, Now: tb.clock.Now, NewToken: tb.token, RetryDelay: time.Millisecond,
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.store = store
}

func (tb *table) token() string {
	if len(tb.tokens) > 0 {
		next := tb.tokens[0]
		tb.tokens = tb.tokens[1:]
		return next
	}
	tb.generated++
	return fmt.Sprintf("token-%d", tb.generated)
}

func (tb *table) put(i item) {
	tb.t.Helper()
	_, err := tb.db.PutItem(tb.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: i})
	if err != nil {
		tb.t.Fatal(err)
	}
}

// get returns a row, or nil if there is none.
func (tb *table) get(pk, sk string) item {
	tb.t.Helper()
	out, err := tb.db.GetItem(tb.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
		Key: item{"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: sk}},
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	return out.Item
}

// all returns the rows of the page and then of the purge log, each by sort key.
func (tb *table) all() []item {
	tb.t.Helper()
	rows := []item{}
	for _, pk := range []string{partitionKey(), purgeLog} {
		out, err := tb.db.Query(tb.t.Context(), &dynamodb.QueryInput{
			TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
			KeyConditionExpression:    aws.String("pk = :pk"),
			ExpressionAttributeValues: item{":pk": &types.AttributeValueMemberS{Value: pk}},
		})
		if err != nil {
			tb.t.Fatal(err)
		}
		for _, i := range out.Items {
			rows = append(rows, i)
		}
	}
	return rows
}

func (tb *table) ctx() context.Context { return tb.t.Context() }

func (tb *table) read() store.Record {
	tb.t.Helper()
	rec, err := tb.store.Read(tb.ctx(), partitionKey())
	if err != nil {
		tb.t.Fatal(err)
	}
	return rec
}

// number returns a numeric attribute of a row, or 0 if there is none.
func (tb *table) number(i item, name string) int64 {
	tb.t.Helper()
	n, ok := i[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	var value int64
	if _, err := fmt.Sscan(n.Value, &value); err != nil {
		tb.t.Errorf("%s is %s: %v", name, n.Value, err)
	}
	return value
}
