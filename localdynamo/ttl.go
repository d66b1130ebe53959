package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// UpdateTimeToLive sets the attribute that holds the expiry time of a table's
// items, or disables TTL. It takes effect at once.
func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	in = orEmpty(in)
	name, err := tableName(in.TableName)
	if err != nil {
		return nil, err
	}
	want := in.TimeToLiveSpecification
	if want == nil || want.Enabled == nil || aws.ToString(want.AttributeName) == "" || len(*want.AttributeName) > maxKeyName {
		return nil, invalid("1 validation error detected: 'timeToLiveSpecification' must have 'enabled' and an 'attributeName' of 1 to %d characters", maxKeyName)
	}
	err = db.submit(ctx, func(tx *transaction) error {
		t, err := tx.tableForUpdate(name)
		if err != nil {
			return err
		}
		switch {
		case *want.Enabled && t.TTL == *want.AttributeName:
			return invalid("TimeToLive is already enabled")
		case *want.Enabled && t.TTL != "", !*want.Enabled && t.TTL != "" && t.TTL != *want.AttributeName:
			return invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.TTL)
		case !*want.Enabled && t.TTL == "":
			return invalid("TimeToLive is already disabled")
		case *want.Enabled:
			t.TTL = *want.AttributeName
		default:
			t.TTL = ""
		}
		return tx.putTable(t)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateTimeToLiveOutput{TimeToLiveSpecification: &types.TimeToLiveSpecification{
		AttributeName: aws.String(*want.AttributeName),
		Enabled:       aws.Bool(*want.Enabled),
	}}, nil
}

// DescribeTimeToLive returns the TTL attribute, and ENABLED or DISABLED.
func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	t, err := db.findDefinition(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	d := &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	if t.TTL != "" {
		d.TimeToLiveStatus = types.TimeToLiveStatusEnabled
		d.AttributeName = aws.String(t.TTL)
	}
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: d}, nil
}
