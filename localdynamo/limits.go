package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Provisioned units that a new account has on AWS. Here they limit nothing.
const (
	accountUnits = 80_000
	tableUnits   = 40_000
)

// DescribeLimits returns the quotas that a new account has on AWS, which this
// engine does not enforce.
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

// endpointMinutes is how long AWS lets a client keep an endpoint.
const endpointMinutes = 1440

// DescribeEndpoints returns "localhost": a DB inside a process has no address.
// A server in front of it knows its own, and should put that in place.
func (db *DB) DescribeEndpoints(ctx context.Context, _ *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return &dynamodb.DescribeEndpointsOutput{Endpoints: []types.Endpoint{{Address: aws.String("localhost"), CachePeriodInMinutes: endpointMinutes}}}, nil
}
