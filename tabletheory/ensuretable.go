package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// EnsureTable sees to it that there is a table as [DB.CreateTable] makes it, and
// returns when it can be used. To a table that exists it adds the global indexes
// that are missing, one after the other, as DynamoDB demands, and switches on
// TTL. What cannot be changed is an error that names it: keys, local indexes, and
// the keys and attributes of an index. What the table has besides, its indexes
// for other models, its billing, stays.
//
// Filling a new index takes minutes to hours, depending on the table: bound the
// wait by ctx. If it ends early, the filling goes on, and the next EnsureTable
// takes up from there. Several processes may call it at the same time.
//
// The client must be a [TableAPI]; else the error is ErrUnsupported.
func (db *DB) EnsureTable(ctx context.Context, model any, others ...any) error {
	w, err := db.wanted("EnsureTable", model, others)
	if err != nil {
		return err
	}
	if err := w.ensure(ctx); err != nil {
		return fmt.Errorf("tabletheory: ensure the table %s: %w", w.name, err)
	}
	return nil
}

// maxRefusals is how often in a row DynamoDB may refuse what a look at the table
// suggested. It is what happens when another process does the same, or when the
// look was at an older state; if it goes on, the error is meant.
const maxRefusals = 4

// ensure looks at the table, does the one next thing that it lacks, and looks
// again, until it lacks nothing. Wherever it is interrupted, and whatever others
// do in between, the next look tells what is left to do.
func (w *wantedTable) ensure(ctx context.Context) error {
	refusals := 0
	for attempt := 1; ; attempt++ {
		state, err := w.advance(ctx)
		if err == nil && state == "" {
			return nil
		}
		if err != nil {
			refusals++
			if refusals > maxRefusals || !isOvertaken(err) {
				return err
			}
		} else {
			refusals = 0
		}
		if !pausedAfter(ctx, attempt) {
			return fmt.Errorf("%s: %w", state, ctx.Err())
		}
	}
}

// isOvertaken reports whether a request may have been refused because another
// process was faster: the table or index is being made, or (a ValidationException)
// is there, or TTL is on already.
func isOvertaken(err error) bool {
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

// advance does the next thing, and tells what is still to be waited for; nothing
// if the table is as it should be.
func (w *wantedTable) advance(ctx context.Context) (state string, err error) {
	table, err := describeTable(ctx, w.api, w.name)
	if errors.Is(err, ErrTableNotFound) {
		_, err := w.api.CreateTable(ctx, w.request())
		return "it is being made", err
	}
	if err != nil {
		return "", err
	}
	switch table.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
	case types.TableStatusCreating, types.TableStatusDeleting:
		return fmt.Sprintf("its state is %s", table.TableStatus), nil
	default:
		return "", fmt.Errorf("its state is %s: expected ACTIVE; see to it in the AWS console", table.TableStatus)
	}
	if err := w.check(table); err != nil {
		return "", err
	}
	// TTL comes first: if it cannot be had, nobody waits for an index before he
	// is told.
	if state, err := w.advanceTTL(ctx, table); state != "" || err != nil {
		return state, err
	}
	return w.advanceIndexes(ctx, table)
}

// advanceIndexes adds one global index, if one is missing and none is at work.
func (w *wantedTable) advanceIndexes(ctx context.Context, table *types.TableDescription) (state string, err error) {
	for _, found := range table.GlobalSecondaryIndexes {
		// DynamoDB makes and deletes one at a time, those of other models too; but
		// nobody waits for these who has all of his own.
		_, wanted := w.index(*found.IndexName)
		if found.IndexStatus != types.IndexStatusActive && (wanted || w.missing(table) != nil) {
			return fmt.Sprintf("its index %s is %s", *found.IndexName, found.IndexStatus), nil
		}
	}
	index := w.missing(table)
	if index == nil {
		return "", nil
	}
	state = fmt.Sprintf("its index %s is to be made", index.name)
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
		return state, fmt.Errorf("add the index %s: %w", index.name, err)
	}
	return state, nil
}

// missing returns the first global index that the table does not have; nil if it
// has all.
func (w *wantedTable) missing(table *types.TableDescription) *indexShape {
	for _, index := range w.indexes {
		if _, ok := findIndex(table, index.name); !ok && !index.local {
			return &index
		}
	}
	return nil
}
