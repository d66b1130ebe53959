package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// advanceTTL switches TTL on, unless it is on. It does not wait until DynamoDB
// begins to delete, which takes up to an hour.
func (w *wantedTable) advanceTTL(ctx context.Context, table *types.TableDescription) (state string, err error) {
	if w.ttl == "" {
		return "", nil
	}
	out, err := w.api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &w.name})
	if err != nil {
		return "", err
	}
	on, err := isTTLOn(out.TimeToLiveDescription, w.ttl)
	if err != nil {
		return "", fmt.Errorf("switch on TTL for the attribute %q: %w", w.ttl, err)
	}
	if on {
		return "", nil
	}
	if table.TableStatus != types.TableStatusActive {
		return "TTL is to be switched on", nil
	}
	_, err = w.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &w.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &w.ttl, Enabled: aws.Bool(true)},
	})
	if err != nil {
		return "TTL is to be switched on", fmt.Errorf("switch on TTL for the attribute %q: %w", w.ttl, err)
	}
	return "", nil
}

// isTTLOn is an error if TTL is on for another attribute, or cannot be switched
// on for now.
func isTTLOn(ttl *types.TimeToLiveDescription, attribute string) (bool, error) {
	if ttl == nil {
		return false, nil
	}
	switch ttl.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if found := aws.ToString(ttl.AttributeName); found != attribute {
			return false, fmt.Errorf("it is on for the attribute %q: switch that off and try again, or change the model", found)
		}
		return true, nil
	case types.TimeToLiveStatusDisabling:
		return false, errors.New("it is being switched off: try again when that is done, within the hour")
	case types.TimeToLiveStatusDisabled:
	}
	return false, nil
}
