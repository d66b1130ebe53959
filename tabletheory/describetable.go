package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DescribeTable returns DynamoDB's description of the table of a model, or
// [ErrTableNotFound]. The client must be a [TableAPI]; otherwise the error is
// ErrUnsupported.
func (db *DB) DescribeTable(ctx context.Context, model any) (*types.TableDescription, error) {
	w, err := db.provisioner("DescribeTable", model, nil)
	if err != nil {
		return nil, err
	}
	table, err := describeTable(ctx, w.api, w.name)
	if err != nil {
		return nil, fmt.Errorf("tabletheory: describe table %s: %w", w.name, err)
	}
	return table, nil
}

func describeTable(ctx context.Context, api TableAPI, name string) (*types.TableDescription, error) {
	out, err := api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if isMissing(err) {
		return nil, fmt.Errorf("%w: %w", ErrTableNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// isMissing reports whether err means that the table does not exist.
func isMissing(err error) bool {
	_, missing := errors.AsType[*types.ResourceNotFoundException](err)
	return missing
}
