package localdynamotest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
)

// A client of an empty engine that lives as long as the test.
func ExampleNew() {
	_ = func(t *testing.T) { // TestSomething
		client := localdynamotest.New(t)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName:            aws.String("locks"),
			BillingMode:          types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The two ways in which a put can fail: the first attempt is not applied, and the reply
// to the second is lost. The SDK retries both.
func ExampleIntercept() {
	_ = func(t *testing.T) { // TestSomething
		puts := 0
		client := localdynamotest.New(t, localdynamotest.Intercept(
			func(_ context.Context, call wire.Call, apply func()) error {
				if call.Operation != "PutItem" {
					return nil
				}
				puts++
				switch puts {
				case 1:
					return errors.New("request lost")
				case 2:
					apply()
					return errors.New("reply lost")
				}
				return nil
			}))
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("locks"),
			Item:      map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction conflict, as AWS reports it.
func ExampleIntercept_conflict() {
	_ = func(t *testing.T) { // TestSomething
		client := localdynamotest.New(t, localdynamotest.Intercept(
			func(_ context.Context, call wire.Call, _ func()) error {
				if call.Operation != "TransactWriteItems" {
					return nil
				}
				return &types.TransactionCanceledException{
					Message: aws.String("Transaction cancelled, please refer cancellation reasons for specific reasons [None, TransactionConflict]"),
					CancellationReasons: []types.CancellationReason{
						{Code: aws.String("None")},
						{Code: aws.String("TransactionConflict"), Message: aws.String("Transaction is ongoing for the item")},
					},
				}
			}))
		_ = client
	}
}
