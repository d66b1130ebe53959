package localdynamo

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// maxListed is the default and maximum page size of ListTables.
const maxListed = 100

// ListTables returns the sorted names of the tables after
// ExclusiveStartTableName, which need not exist. LastEvaluatedTableName is set
// if there are more than Limit. The default and maximum of Limit is 100.
func (db *DB) ListTables(ctx context.Context, in *dynamodb.ListTablesInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	in = orEmpty(in)
	limit, err := listLimit(in.Limit)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(*db.tables.Load()))
	if start := in.ExclusiveStartTableName; start != nil {
		if err := checkName("exclusiveStartTableName", start); err != nil {
			return nil, err
		}
		at, found := slices.BinarySearch(names, *start)
		if found {
			at++
		}
		names = names[at:]
	}
	out := &dynamodb.ListTablesOutput{TableNames: []string{}}
	if len(names) > limit {
		names = names[:limit]
		out.LastEvaluatedTableName = aws.String(names[limit-1])
	}
	out.TableNames = append(out.TableNames, names...)
	return out, nil
}

func listLimit(limit *int32) (int, error) {
	switch {
	case limit == nil:
		return maxListed, nil
	case *limit < 1:
		return 0, errConstraint(strconv.Itoa(int(*limit)), "limit", "Member must have value greater than or equal to 1")
	case *limit > maxListed:
		return 0, errConstraint(strconv.Itoa(int(*limit)), "limit", "Member must have value less than or equal to 100")
	}
	return int(*limit), nil
}
