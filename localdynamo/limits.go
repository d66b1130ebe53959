package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Provisioned units that AWS allows a new account. They are not enforced here.
const (
	accountUnits = 80_000
	tableUnits   = 40_000
)

// DescribeLimits returns the quotas of a new AWS account. They are not enforced.
func (db *DB) DescribeLimits(ctx context.Context, _ *dynamodb.DescribeLimitsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return &dynamodb.DescribeLimitsOutput{
		AccountMaxReadCapacityUnits:  aws.Int64(accountUnits),
		AccountMaxWriteCapacityUnits: aws.Int64(accountUnits),
		TableMaxReadCapacityUnits:    aws.Int64(tableUnits),
		TableMaxWriteCapacityUnits:   aws.Int64(tableUnits),
	}, nil
}

// endpointMinutes is how long a client may cache an endpoint, as on AWS.
const endpointMinutes = 1440

// DescribeEndpoints returns "localhost", because an embedded DB has no address.
// A server in front of it should return its own address instead.
func (db *DB) DescribeEndpoints(ctx context.Context, _ *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return &dynamodb.DescribeEndpointsOutput{Endpoints: []types.Endpoint{{Address: aws.String("localhost"), CachePeriodInMinutes: endpointMinutes}}}, nil
}
