package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// EnsureTable creates the table like [DB.CreateTable], or updates an existing
// one, and returns when it is ready. It adds missing global indexes, one at a
// time as DynamoDB requires, and enables TTL. Differences that cannot be changed
// are errors: keys, local indexes, and the keys and projections of an index.
// Other properties of the table, such as the indexes of other models and the
// billing mode, are unchanged.
//
// Filling a new index takes minutes to hours, depending on the table: bound the
// wait with ctx. If it ends early, DynamoDB continues, and the next EnsureTable
// resumes. Concurrent calls by several processes are safe.
//
// The client must be a [TableAPI]; otherwise the error is ErrUnsupported.
func (db *DB) EnsureTable(ctx context.Context, model any, others ...any) error {
	w, err := db.provisioner("EnsureTable", model, others)
	if err != nil {
		return err
	}
	if err := w.ensure(ctx); err != nil {
		return fmt.Errorf("tabletheory: ensure table %s: %w", w.name, err)
	}
	return nil
}

// maxRefusals is how many requests in a row DynamoDB may refuse. A refusal is
// normal if another process made the same change or the description of the table
// was outdated; a persistent one is an error.
const maxRefusals = 4

// ensure describes the table, makes the next missing change, and repeats until
// nothing is missing. It can be interrupted at any point and tolerates
// concurrent changes, because every step starts from the table's state.
func (w *provisioner) ensure(ctx context.Context) error {
	refusals := 0
	for attempt := 1; ; attempt++ {
		state, err := w.advance(ctx)
		if err == nil && state == "" {
			return nil
		}
		if err != nil {
			refusals++
			if refusals > maxRefusals || !isLostRace(err) {
				return err
			}
		} else {
			refusals = 0
		}
		if !waitAfter(ctx, attempt) {
			return fmt.Errorf("%s: %w", state, ctx.Err())
		}
	}
}

// isLostRace reports whether a request may have been refused because another
// process was faster: the table or index is being created, or exists already (a
// ValidationException), or TTL is enabled already.
func isLostRace(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode() {
	case "ResourceInUseException", "LimitExceededException", "ValidationException":
		return true
	}
	return false
}

// advance makes the next change. state describes what it waits for; it is empty
// if the table is complete.
func (w *provisioner) advance(ctx context.Context) (state string, err error) {
	table, err := describeTable(ctx, w.api, w.name)
	if errors.Is(err, ErrTableNotFound) {
		_, err := w.api.CreateTable(ctx, w.request())
		return "the table is being created", err
	}
	if err != nil {
		return "", err
	}
	switch table.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
	case types.TableStatusCreating, types.TableStatusDeleting:
		return fmt.Sprintf("the table is %s", table.TableStatus), nil
	default:
		return "", fmt.Errorf("the table is %s: expected ACTIVE; fix it in the AWS console", table.TableStatus)
	}
	if err := w.check(table); err != nil {
		return "", err
	}
	// TTL comes first, so that its errors are not delayed by the filling of an index.
	if state, err := w.advanceTTL(ctx, table); state != "" || err != nil {
		return state, err
	}
	return w.advanceIndexes(ctx, table)
}

// advanceIndexes adds a missing global index, unless another one is being
// created or deleted.
func (w *provisioner) advanceIndexes(ctx context.Context, table *types.TableDescription) (state string, err error) {
	for _, found := range table.GlobalSecondaryIndexes {
		// DynamoDB creates and deletes one index at a time. Another model's index
		// matters only while one of ours is missing.
		_, ours := w.index(*found.IndexName)
		if found.IndexStatus != types.IndexStatusActive && (ours || w.missing(table) != nil) {
			return fmt.Sprintf("index %s is %s", *found.IndexName, found.IndexStatus), nil
		}
	}
	index := w.missing(table)
	if index == nil {
		return "", nil
	}
	state = fmt.Sprintf("index %s must be created", index.name)
	if table.TableStatus != types.TableStatusActive {
		return state, nil
	}
	_, err = w.api.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:            &w.name,
		AttributeDefinitions: definitionsOf(index.key),
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: &index.name, KeySchema: index.key.schema(), Projection: allAttributes(),
		}}},
	})
	if err != nil {
		return state, fmt.Errorf("add index %s: %w", index.name, err)
	}
	return state, nil
}

// missing returns the first global index that the table lacks, or nil.
func (w *provisioner) missing(table *types.TableDescription) *indexSpec {
	for _, index := range w.indexes {
		if _, ok := findIndex(table, index.name); !ok && !index.local {
			return &index
		}
	}
	return nil
}
