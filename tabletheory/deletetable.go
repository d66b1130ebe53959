package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DeleteTable deletes the table of a model with all its items, those of other
// models too, and returns when it is gone. If there is none it returns
// [ErrTableNotFound]. A table that is being made or changed is deleted as soon
// as that is done. Bound the wait by ctx; if it ends early, the deletion may
// still happen. The client must be a [TableAPI]; else the error is
// ErrUnsupported.
func (db *DB) DeleteTable(ctx context.Context, model any) error {
	w, err := db.wanted("DeleteTable", model, nil)
	if err != nil {
		return err
	}
	if err := deleteTable(ctx, w.api, w.name); err != nil {
		return fmt.Errorf("tabletheory: delete the table %s: %w", w.name, err)
	}
	return nil
}

// deleteTable deletes the table that it finds first, known by its ID: if that is
// gone, another process may already have made another one of the name.
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
		if !pausedAfter(ctx, attempt) {
			return fmt.Errorf("its state is %s: %w", table.TableStatus, ctx.Err())
		}
	}
}

// requestDeletion reports whether the table is being deleted, or gone; else it
// is being made or changed, and the request is to be repeated.
func requestDeletion(ctx context.Context, api TableAPI, name string) (accepted bool, err error) {
	_, err = api.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	if _, busy := errors.AsType[*types.ResourceInUseException](err); busy {
		return false, nil
	}
	if isMissing(err) { // the reply to an earlier attempt of the SDK's may have been lost
		return true, nil
	}
	return err == nil, err
}
