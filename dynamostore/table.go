package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableAPI is what [CreateTable] and [CheckTable] need of DynamoDB.
// *dynamodb.Client satisfies it, and so does the embedded engine.
type TableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

// ErrNoTable: the table does not exist.
var ErrNoTable = errors.New("there is no such table")

// tablePoll is the pause between two looks at a table that is being created.
const tablePoll = 500 * time.Millisecond

// wantedKeys is the key schema of the table, in the words of describeKeys.
const wantedKeys = "pk (string, hash), sk (string, range)"

// CreateTable makes the table: string keys pk and sk, on-demand billing, and TTL
// on the attribute ttl. It returns when the table can be used. A table of that
// shape that exists is left as it is, and gets TTL switched on if it is off; a
// table with other keys is an error. Bound the wait by ctx: AWS takes some
// seconds. Safe for concurrent use, from several processes too.
func CreateTable(ctx context.Context, api TableAPI, name string) error {
	if err := createTable(ctx, api, name); err != nil {
		return fmt.Errorf("create the table %q: %w", name, err)
	}
	if err := enableTTL(ctx, api, name); err != nil {
		return fmt.Errorf("switch on TTL of the table %q: %w", name, err)
	}
	return nil
}

// createTable returns when a table of the right keys can be used. It looks
// first: whoever may use a table need not be allowed to create one.
func createTable(ctx context.Context, api TableAPI, name string) error {
	_, err := describeTable(ctx, api, name)
	if err == nil {
		return awaitActive(ctx, api, name)
	}
	if !errors.Is(err, ErrNoTable) {
		return err
	}
	_, err = api.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrPK), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrSK), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrPK), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrSK), KeyType: types.KeyTypeRange},
		},
	})
	// In use: another process was faster.
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return err
	}
	return awaitActive(ctx, api, name)
}

// CheckTable returns nil if the table exists, has the right keys and can be
// used, and otherwise an error of one line that says what to do. If there is no
// table, it wraps [ErrNoTable].
func CheckTable(ctx context.Context, api TableAPI, name string) error {
	table, err := describeTable(ctx, api, name)
	if err != nil {
		return fmt.Errorf("the table %q: %w", name, err)
	}
	if err := checkKeys(table); err != nil {
		return fmt.Errorf("the table %q: %w", name, err)
	}
	if !usable(table.TableStatus) {
		return fmt.Errorf("the table %q is in state %s: wait until it is ACTIVE", name, table.TableStatus)
	}
	return nil
}

func describeTable(ctx context.Context, api TableAPI, name string) (*types.TableDescription, error) {
	out, err := api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return nil, fmt.Errorf("%w: create it with `isr table create`, or start with --create-table", ErrNoTable)
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// usable says that rows can be read and written.
func usable(status types.TableStatus) bool {
	return status == types.TableStatusActive || status == types.TableStatusUpdating
}

func awaitActive(ctx context.Context, api TableAPI, name string) error {
	for {
		table, err := describeTable(ctx, api, name)
		// Just after its creation a table may not be seen yet.
		if err != nil && !errors.Is(err, ErrNoTable) {
			return err
		}
		if err == nil {
			if err := checkKeys(table); err != nil {
				return err
			}
			if usable(table.TableStatus) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until it is ACTIVE: %w", ctx.Err())
		case <-time.After(tablePoll):
		}
	}
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

// enableTTL switches TTL on, unless it is on.
func enableTTL(ctx context.Context, api TableAPI, name string) error {
	on, err := ttlEnabled(ctx, api, name)
	if on || err != nil {
		return err
	}
	_, err = api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true),
		},
	})
	if err == nil {
		return nil
	}
	// Another process may have switched it on in between, which is refused here.
	if on, again := ttlEnabled(ctx, api, name); on && again == nil {
		return nil
	}
	return err
}

func ttlEnabled(ctx context.Context, api TableAPI, name string) (bool, error) {
	out, err := api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return false, err
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil {
		return false, nil
	}
	switch ttl.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if attribute := aws.ToString(ttl.AttributeName); attribute != attrTTL {
			return false, fmt.Errorf("it is on for the attribute %q: expected %q; switch it off and try again", attribute, attrTTL)
		}
		return true, nil
	case types.TimeToLiveStatusDisabling:
		return false, errors.New("it is being switched off: try again when that is done, within the hour")
	case types.TimeToLiveStatusDisabled:
	}
	return false, nil
}
