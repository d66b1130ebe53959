package localdynamo_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// item is an alias for items and keys of the API.
type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// open returns a DB on a new file with the table "things", whose keys pk and sk
// are strings. Check runs when the test ends.
func open(t testing.TB, opts localdynamo.Options) *localdynamo.DB {
	t.Helper()
	opts.NoSync = true
	if opts.SweepInterval == 0 {
		opts.SweepInterval = -1
	}
	db := openAt(t, filepath.Join(t.TempDir(), "db"), opts)
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	return db
}

func openAt(t testing.TB, path string, opts localdynamo.Options) *localdynamo.DB {
	t.Helper()
	db, err := localdynamo.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Check(context.WithoutCancel(t.Context())); err != nil && err != localdynamo.ErrClosed {
			t.Errorf("check: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func createTable(t testing.TB, db *localdynamo.DB, name string, rangeType types.ScalarAttributeType) {
	t.Helper()
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: rangeType},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func key(pk, sk string) item { return item{"pk": str(pk), "sk": str(sk)} }

func put(t testing.TB, db *localdynamo.DB, it item) {
	t.Helper()
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("things"), Item: it}); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, db *localdynamo.DB, pk, sk string) item {
	t.Helper()
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("things"), Key: key(pk, sk)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}
