package tabletheory

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// advanceTTL enables TTL, unless it is enabled. It does not wait until DynamoDB
// starts to delete, which takes up to an hour.
func (w *provisioner) advanceTTL(ctx context.Context, table *types.TableDescription) (state string, err error) {
	if w.ttl == "" {
		return "", nil
	}
	out, err := w.api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &w.name})
	if err != nil {
		return "", err
	}
	on, err := isTTLOn(out.TimeToLiveDescription, w.ttl)
	if err != nil {
		return "", fmt.Errorf("enable TTL for attribute %q: %w", w.ttl, err)
	}
	if on {
		return "", nil
	}
	if table.TableStatus != types.TableStatusActive {
		return "TTL must be enabled", nil
	}
	_, err = w.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &w.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &w.ttl, Enabled: aws.Bool(true)},
	})
	if err != nil {
		return "TTL must be enabled", fmt.Errorf("enable TTL for attribute %q: %w", w.ttl, err)
	}
	return "", nil
}

// isTTLOn reports whether TTL is enabled for an attribute. It returns an error
// if it is enabled for another attribute, or cannot be enabled now.
func isTTLOn(ttl *types.TimeToLiveDescription, attribute string) (bool, error) {
	if ttl == nil {
		return false, nil
	}
	switch ttl.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if found := aws.ToString(ttl.AttributeName); found != attribute {
			return false, fmt.Errorf("TTL is enabled for attribute %q: disable it and try again, or change the model", found)
		}
		return true, nil
	case types.TimeToLiveStatusDisabling:
		return false, errors.New("TTL is being disabled: try again in an hour")
	case types.TimeToLiveStatusDisabled:
	}
	return false, nil
}
