package dynamostore_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// An engine stores tables.
type engine interface {
	dynamostore.API
	dynamostore.TableAPI
}

// onEngines runs a test on every engine.
func onEngines(t *testing.T, test func(t *testing.T, db engine)) {
	t.Run("localdynamo", func(t *testing.T) { test(t, localDynamo(t)) })
	t.Run("DynamoDBLocal", func(t *testing.T) { test(t, dynamoDBLocal(t)) })
}

// localDynamo returns the embedded engine on its own file.
func localDynamo(t *testing.T) *localdynamo.DB {
	t.Helper()
	db, err := localdynamo.Open(filepath.Join(t.TempDir(), "isr.db"), localdynamo.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended.
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("check the engine's file: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return db
}

// dynamoDBLocal returns a client of AWS's DynamoDB Local.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
	})
}

// newTable creates a table for a test.
func newTable(t *testing.T, db engine) string {
	t.Helper()
	name := newName(t, db)
	if err := dynamostore.CreateTable(t.Context(), db, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// newName returns the name of a table, which is deleted when the test ends.
func newName(t *testing.T, db engine) string {
	t.Helper()
	name := "isr-" + rand.Text()
	if client, ok := db.(*dynamodb.Client); ok { // otherwise the test has its own file
		testbed.DropTable(t, client, name)
	}
	return name
}

func newStore(t *testing.T, api dynamostore.API, table string, config dynamostore.Config) *dynamostore.Store {
	t.Helper()
	if config.RetryDelay == 0 {
		config.RetryDelay = time.Millisecond
	}
	store, err := dynamostore.New(api, table, config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestMetaStore(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		isrtest.MetaStore(t, func(t *testing.T) isrtest.MetaStoreOpener {
			table := newTable(t, db)
			return func(owner string, now func() time.Time) store.MetaStore {
				return newStore(t, db, table, dynamostore.Config{Owner: owner, Now: now})
			}
		})
	})
}

// The leases of the embedded engine are volatile.
func TestMetaStoreWithVolatileLeases(t *testing.T) {
	t.Parallel()
	db := localDynamo(t)
	isrtest.MetaStore(t, func(t *testing.T) isrtest.MetaStoreOpener {
		table := newTable(t, db)
		return func(owner string, now func() time.Time) store.MetaStore {
			return newStore(t, db, table, dynamostore.Config{Owner: owner, Now: now, Leases: db.Volatile()})
		}
	})
}

// A rawTable reads and writes rows as another service would.
type rawTable struct {
	t    *testing.T
	db   engine
	name string
}

type attrs = map[string]types.AttributeValue

func (r rawTable) put(pk, sk string, row attrs) {
	r.t.Helper()
	item := attrs{"pk": str(pk), "sk": str(sk)}
	for name, value := range row {
		item[name] = value
	}
	if _, err := r.db.PutItem(r.t.Context(), &dynamodb.PutItemInput{TableName: &r.name, Item: item}); err != nil {
		r.t.Fatal(err)
	}
}

// set puts the row, or deletes it if it is nil.
func (r rawTable) set(pk, sk string, row attrs) {
	r.t.Helper()
	if row != nil {
		r.put(pk, sk, row)
		return
	}
	_, err := r.db.DeleteItem(r.t.Context(), &dynamodb.DeleteItemInput{
		TableName: &r.name, Key: attrs{"pk": str(pk), "sk": str(sk)},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r rawTable) get(pk, sk string) attrs {
	r.t.Helper()
	out, err := r.db.GetItem(r.t.Context(), &dynamodb.GetItemInput{
		TableName: &r.name, Key: attrs{"pk": str(pk), "sk": str(sk)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Item
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func list(members ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: members}
}
func obj(members attrs) types.AttributeValue { return &types.AttributeValueMemberM{Value: members} }
func null() types.AttributeValue             { return &types.AttributeValueMemberNULL{Value: true} }
func bin(b ...byte) types.AttributeValue     { return &types.AttributeValueMemberB{Value: b} }
func yes() types.AttributeValue              { return &types.AttributeValueMemberBOOL{Value: true} }
func set(members ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: members}
}
