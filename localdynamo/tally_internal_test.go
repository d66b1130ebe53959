package localdynamo

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestCheckFindsWrongTally also checks that Open computes missing tallies, which
// older versions did not store.
func TestCheckFindsWrongTally(t *testing.T) {
	t.Parallel()
	db := OpenMemory(Options{SweepInterval: -1})
	defer db.Close()
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("counted"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String("counted"), Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	set := func(apply func(tx *transaction, space []byte) error) {
		t.Helper()
		err := db.submit(t.Context(), func(tx *transaction) error { return apply(tx, []byte(tx.tables["counted"].space())) })
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, stored := range [][]byte{tally{2, 3}.encode(), tally{1, 4}.encode(), {1}} {
		set(func(tx *transaction, space []byte) error { return tx.Put(tallySpace, space, stored) })
		if err := db.Check(t.Context()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("tally %v: %v", stored, err)
		}
	}
	set(func(tx *transaction, space []byte) error { return tx.Delete(tallySpace, space) })
	if err := db.Check(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without a tally: %v", err)
	}
	if err := addMissingTallies(db.store, *db.tables.Load()); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("after the recount: %v", err)
	}
}
