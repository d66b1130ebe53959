package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

var _ isr.Inventory = (*Store)(nil)

// Partitions implements [isr.MetaStore]. It scans the table strongly: the whole
// of it is paid for.
func (s *Store) Partitions(ctx context.Context) iter.Seq2[string, error] {
	ctx = s.during(ctx, "partitions")
	return func(yield func(string, error) bool) {
		last := ""
		for found, err := range s.scan(ctx, ofPartitions()) {
			if err != nil {
				yield("", fmt.Errorf("list the partitions of the table %s: %w", s.table, err))
				return
			}
			// The rows of a partition come one after the other.
			if pk := found.text(attrPK); pk != last {
				if last = pk; !yield(pk, nil) {
					return
				}
			}
		}
	}
}

// ofPartitions are the rows that make a partition a page's, without what they say.
func ofPartitions() *dynamodb.ScanInput {
	return &dynamodb.ScanInput{
		FilterExpression:     aws.String("(sk IN (:lock, :meta) OR begins_with(sk, :version) OR begins_with(sk, :request)) AND NOT begins_with(pk, :job)"),
		ProjectionExpression: aws.String("pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":lock": stringOf(skLock), ":meta": stringOf(skMeta),
			":version": stringOf(versionPrefix), ":request": stringOf(requestPrefix),
			":job": stringOf(jobPrefix),
		},
	}
}

// BodyKeys implements [isr.MetaStore]. The keys are sorted, as the rows have them:
// those of other services may be URLs. Whatever a row of another kind names is
// none of the page's.
func (s *Store) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	ctx = s.during(ctx, "body keys")
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, &dynamodb.QueryInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk"),
		ProjectionExpression:      aws.String("sk, s3_key, result_s3_key"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": stringOf(pk)},
	})
	if err != nil {
		return nil, fmt.Errorf("read the body keys of %s: %w", pk, err)
	}
	var keys []string
	for _, found := range rows {
		if key := found.names(); key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// names is the body that a row of a page keeps, empty if it keeps none.
func (r row) names() string {
	switch sk := r.text(attrSK); {
	case sk == skMeta, strings.HasPrefix(sk, versionPrefix):
		return r.text(attrBodyKey)
	case strings.HasPrefix(sk, requestPrefix):
		return r.text(attrResult)
	}
	return ""
}
