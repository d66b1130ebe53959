package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DeleteTable deletes a table with its items and indexes. The reply says
// DELETING, but the table is gone at once: queued and later requests get a
// *types.ResourceNotFoundException. What it held is removed in the background. With deletion protection the error is a
// ValidationException; while an index is being added, it is a
// *types.ResourceInUseException.
func (db *DB) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	name, err := tableName(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	var t *table
	var held map[string]tally
	err = db.submit(ctx, func(tx *transaction) error {
		t = tx.tables[name]
		switch {
		case t == nil:
			return errTableNotFound(name)
		case t.Deletion:
			return invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		case t.backfillingIndex() != nil:
			return errBeingUpdated(name)
		}
		var err error
		if held, err = tx.readTallies(t); err != nil {
			return err
		}
		return tx.removeTable(t)
	})
	if err != nil {
		return nil, err
	}
	db.removalWake.wake()
	d := t.description(held)
	d.TableStatus = types.TableStatusDeleting
	// AWS describes the size of a table being deleted, but not its schema.
	d.AttributeDefinitions, d.KeySchema, d.CreationDateTime = nil, nil, nil
	d.GlobalSecondaryIndexes, d.LocalSecondaryIndexes = nil, nil
	return &dynamodb.DeleteTableOutput{TableDescription: d}, nil
}

func errBeingUpdated(name string) error {
	return &types.ResourceInUseException{Message: aws.String("Attempt to change a resource which is still in use: Table is being updated: " + name)}
}
