package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// TableAPI is the part of DynamoDB that [CreateTable] and [CheckTable] use.
// *dynamodb.Client implements it, and so does the embedded engine.
type TableAPI interface {
	tabletheory.API
	tabletheory.TableAPI
}

// ErrNoTable: the table does not exist.
var ErrNoTable = tabletheory.ErrTableNotFound

// wantKeys is the key schema of the table, as describeKeys formats it.
const wantKeys = "pk (string, hash), sk (string, range)"

// CreateTable creates the table: string keys pk and sk, on-demand billing, and TTL
// on the attribute ttl. It returns when the table can be used, which takes some
// seconds on AWS and is bounded by ctx. If a table with these keys exists, CreateTable
// only enables its TTL; a table with other keys, or with replicas in other regions, is
// an error. It is safe for concurrent use, also by several processes.
func CreateTable(ctx context.Context, api TableAPI, name string) error {
	// An existing table is checked first, because these errors are clearer than the errors of
	// package tabletheory.
	table, err := describeTable(ctx, api, name)
	if err == nil {
		err = checkKeys(table)
	}
	if err == nil && table != nil {
		err = checkRegions(table)
	}
	if err == nil || errors.Is(err, ErrNoTable) {
		err = tabletheory.New(api).EnsureTable(ctx, modelOf(name))
	}
	if err != nil {
		return fmt.Errorf("create the table %q: %w", name, err)
	}
	return nil
}

// CheckTable returns nil if the table exists, has the right keys, no replicas in
// other regions, and TTL on the attribute ttl, and can be used; otherwise an error
// of one line that names the remedy. If there is no table, it wraps [ErrNoTable].
//
// If the state of TTL cannot be read, for example because dynamodb:DescribeTimeToLive
// is not granted, CheckTable only logs a warning: without TTL the table grows, but works.
// log may be nil.
func CheckTable(ctx context.Context, api TableAPI, name string, log *slog.Logger) error {
	_, faults := InspectTable(ctx, api, name)
	for _, err := range faults {
		if unseen := (*ttlUnseenError)(nil); errors.As(err, &unseen) && ctx.Err() == nil {
			if log != nil {
				log.WarnContext(ctx, "isr: cannot check that TTL is enabled for the attribute ttl; without it the table grows forever; grant dynamodb:DescribeTimeToLive",
					slog.String("table", name), slog.Any("err", unseen.err))
			}
			continue
		}
		return fmt.Errorf("the table %q: %w", name, err)
	}
	return nil
}

// InspectTable returns the description of a table, nil if it cannot be read, and all that is
// wrong with it. A [*TableError] has the remedy.
func InspectTable(ctx context.Context, api TableAPI, name string) (table *types.TableDescription, faults []error) {
	table, err := describeTable(ctx, api, name)
	if err != nil {
		return nil, []error{err}
	}
	for _, err := range []error{checkKeys(table), checkRegions(table), checkTTL(ctx, api, name), checkState(table)} {
		if err != nil {
			faults = append(faults, err)
		}
	}
	return table, faults
}

// A TableError is a fault of a table.
type TableError struct {
	Problem, Do string // what is wrong, and what to do about it
	err         error  // may be nil
}

// Error returns one line.
func (e *TableError) Error() string { return e.Problem + "; " + e.Do }

// Unwrap returns the cause, such as [ErrNoTable].
func (e *TableError) Unwrap() error { return e.err }

// A ttlUnseenError means that the state of TTL cannot be read.
type ttlUnseenError struct{ err error }

func (e *ttlUnseenError) Error() string { return "read the state of TTL: " + e.err.Error() }
func (e *ttlUnseenError) Unwrap() error { return e.err }

// modelOf returns a model of the table. All models have its keys and its ttl.
func modelOf(table string) *lockRow { return &lockRow{location: location{table: table}} }

func describeTable(ctx context.Context, api TableAPI, name string) (*types.TableDescription, error) {
	table, err := tabletheory.New(api).DescribeTable(ctx, modelOf(name))
	if errors.Is(err, ErrNoTable) {
		return nil, &TableError{ErrNoTable.Error(), fmt.Sprintf("create it with `isr table create --table %s`, or start with --create-table", name), ErrNoTable}
	}
	return table, err
}

// checkKeys refuses a table with another key schema.
func checkKeys(table *types.TableDescription) error {
	if found := describeKeys(table); found != wantKeys {
		return &TableError{Problem: fmt.Sprintf("its keys must be %s (found %s)", wantKeys, found), Do: "use another table name"}
	}
	return nil
}

// checkRegions refuses global tables, which do not provide the guarantees that this
// package requires.
//
// With eventual consistency, conditions are evaluated by the replica that gets the
// write: two regions grant the same lease and advance SEQ to the same number, and the
// later of two LOG rows of that number, or of two writes of META, silently replaces the
// other. With multi-region strong consistency, DynamoDB has no transactions, and TTL
// deletes nothing.
func checkRegions(table *types.TableDescription) error {
	var where []string
	for _, replica := range table.Replicas {
		where = append(where, aws.ToString(replica.RegionName))
	}
	if len(where) == 0 && aws.ToString(table.GlobalTableVersion) == "" && table.MultiRegionConsistency == "" {
		return nil
	}
	replicas := ""
	if len(where) > 0 {
		replicas = ", with replicas in " + strings.Join(where, ", ")
	}
	why := "leases do not exclude other regions, the purge sequence forks, and the last writer wins, which loses rows of the purge log"
	if table.MultiRegionConsistency == types.MultiRegionConsistencyStrong {
		why = "with multi-region strong consistency it has no transactions, which every publish needs"
	}
	return &TableError{Problem: fmt.Sprintf("it is a global table%s, and %s", replicas, why), Do: "remove the replicas, or use a table and a bucket of its own in each region"}
}

// checkTTL returns an error unless TTL deletes expired rows.
func checkTTL(ctx context.Context, api TableAPI, name string) error {
	out, err := api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return &ttlUnseenError{err}
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil {
		ttl = &types.TimeToLiveDescription{}
	}
	on := ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	switch found := aws.ToString(ttl.AttributeName); {
	case !on:
		return &TableError{
			Problem: "TTL is disabled, so expired rows would stay forever",
			Do:      fmt.Sprintf("enable it for the attribute %q with `isr table create --table %s`", attrTTL, name),
		}
	case found != attrTTL:
		return &TableError{
			Problem: fmt.Sprintf("TTL is enabled for the attribute %q, not %q", found, attrTTL),
			Do:      fmt.Sprintf("disable it there (update-time-to-live), and an hour later enable it with `isr table create --table %s`", name),
		}
	}
	return nil
}

// checkState returns an error unless the table can be used. Rows can be read and written
// while it is being changed.
func checkState(table *types.TableDescription) error {
	if status := table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		return &TableError{Problem: fmt.Sprintf("it is in state %s", status), Do: "wait until it is ACTIVE"}
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
