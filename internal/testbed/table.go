package testbed

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DropTable deletes a table when the test ends, if it is there then. Tests that share a DynamoDB Local must
// leave no tables with TTL: for each of them, the making of any index takes a second and a half longer.
func DropTable(t testing.TB, client *dynamodb.Client, name string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		if missing := (*types.ResourceNotFoundException)(nil); err != nil && !errors.As(err, &missing) {
			t.Errorf("delete the table %s: %v", name, err)
		}
	})
}
