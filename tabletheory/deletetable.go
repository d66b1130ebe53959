package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DeleteTable deletes the table of a model with all its items, including items
// of other models, and returns when it is gone. If there is none it returns
// [ErrTableNotFound]. A table that is being created or updated is deleted when
// that is done. Bound the wait with ctx; if it ends early, the deletion may
// still happen. The client must be a [TableAPI]; otherwise the error is
// ErrUnsupported.
func (db *DB) DeleteTable(ctx context.Context, model any) error {
	w, err := db.provisioner("DeleteTable", model, nil)
	if err != nil {
		return err
	}
	if err := deleteTable(ctx, w.api, w.name); err != nil {
		return fmt.Errorf("tabletheory: delete table %s: %w", w.name, err)
	}
	return nil
}

// deleteTable deletes the table that exists now, identified by its ID: once it
// is gone, another process may create a new table with the same name.
func deleteTable(ctx context.Context, api TableAPI, name string) error {
	first, err := describeTable(ctx, api, name)
	if err != nil {
		return err
	}
	accepted := first.TableStatus == types.TableStatusDeleting
	for attempt := 1; ; attempt++ {
		if !accepted {
			if accepted, err = requestDeletion(ctx, api, name); err != nil {
				return err
			}
		}
		table, err := describeTable(ctx, api, name)
		if errors.Is(err, ErrTableNotFound) || err == nil && aws.ToString(table.TableId) != aws.ToString(first.TableId) {
			return nil
		}
		if err != nil {
			return err
		}
		if !waitAfter(ctx, attempt) {
			return fmt.Errorf("the table is %s: %w", table.TableStatus, ctx.Err())
		}
	}
}

// requestDeletion reports whether the table is being deleted or gone. Otherwise
// it is being created or updated, and the request must be retried.
func requestDeletion(ctx context.Context, api TableAPI, name string) (accepted bool, err error) {
	_, err = api.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	if _, busy := errors.AsType[*types.ResourceInUseException](err); busy {
		return false, nil
	}
	if isMissing(err) { // the reply to an earlier attempt of the SDK may have been lost
		return true, nil
	}
	return err == nil, err
}
