package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// TableAPI is what [CreateTable] and [CheckTable] need of DynamoDB.
// *dynamodb.Client satisfies it, and so does the embedded engine.
type TableAPI interface {
	tabletheory.API
	tabletheory.TableAPI
}

// ErrNoTable: the table does not exist.
var ErrNoTable = tabletheory.ErrTableNotFound

// wantedKeys is the key schema of the table, in the words of describeKeys.
const wantedKeys = "pk (string, hash), sk (string, range)"

// CreateTable makes the table: string keys pk and sk, on-demand billing, and TTL
// on the attribute ttl. It returns when the table can be used. A table of that
// shape that exists is left as it is, and gets TTL switched on if it is off; a
// table with other keys is an error. Bound the wait by ctx: AWS takes some
// seconds. Safe for concurrent use, from several processes too.
func CreateTable(ctx context.Context, api TableAPI, name string) error {
	// A table that is there is looked at first, for an error that speaks of this
	// package's tables, not of models.
	table, err := describeTable(ctx, api, name)
	if err == nil {
		err = checkKeys(table)
	}
	if err == nil || errors.Is(err, ErrNoTable) {
		err = tabletheory.New(api).EnsureTable(ctx, modelOf(name))
	}
	if err != nil {
		return fmt.Errorf("create the table %q: %w", name, err)
	}
	return nil
}

// CheckTable returns nil if the table exists, has the right keys and can be
// used, and otherwise an error of one line that says what to do. If there is no
// table, it wraps [ErrNoTable].
func CheckTable(ctx context.Context, api TableAPI, name string) error {
	table, err := describeTable(ctx, api, name)
	if err == nil {
		err = checkKeys(table)
	}
	if err != nil {
		return fmt.Errorf("the table %q: %w", name, err)
	}
	// Rows can be read and written while it is being changed.
	if status := table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		return fmt.Errorf("the table %q is in state %s: wait until it is ACTIVE", name, status)
	}
	return nil
}

// modelOf is a model of the table. All of them have its keys and its ttl.
func modelOf(table string) *lockRow { return &lockRow{location: location{table: table}} }

func describeTable(ctx context.Context, api TableAPI, name string) (*types.TableDescription, error) {
	table, err := tabletheory.New(api).DescribeTable(ctx, modelOf(name))
	if errors.Is(err, ErrNoTable) {
		return nil, fmt.Errorf("%w: create it with `isr table create`, or start with --create-table", ErrNoTable)
	}
	return table, err
}

// checkKeys compares the key schema with that of this package.
func checkKeys(table *types.TableDescription) error {
	if found := describeKeys(table); found != wantedKeys {
		return fmt.Errorf("its keys are of another shape: expected %s, found %s; use another table name", wantedKeys, found)
	}
	return nil
}

func describeKeys(table *types.TableDescription) string {
	kinds := make(map[string]string, len(table.AttributeDefinitions))
	for _, definition := range table.AttributeDefinitions {
		switch definition.AttributeType {
		case types.ScalarAttributeTypeS:
			kinds[aws.ToString(definition.AttributeName)] = "string"
		case types.ScalarAttributeTypeN:
			kinds[aws.ToString(definition.AttributeName)] = "number"
		case types.ScalarAttributeTypeB:
			kinds[aws.ToString(definition.AttributeName)] = "binary"
		}
	}
	keys := make([]string, 0, len(table.KeySchema))
	for _, element := range table.KeySchema {
		name := aws.ToString(element.AttributeName)
		keys = append(keys, fmt.Sprintf("%s (%s, %s)", name, kinds[name], strings.ToLower(string(element.KeyType))))
	}
	return strings.Join(keys, ", ")
}
