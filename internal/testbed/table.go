package testbed

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// DropTable deletes a table when the test ends. Tests that share a DynamoDB Local must
// leave no tables with TTL: for each of them, the making of any index takes a second and a half longer.
func DropTable(t testing.TB, client *dynamodb.Client, name string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete the table %s: %v", name, err)
		}
	})
}
