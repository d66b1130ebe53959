package dynamostore

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// maxPruned is how many versions one publish deletes at most. Where one is
// published one is to go; what was left earlier goes little by little.
const maxPruned = 25

// prune deletes superseded versions beyond the newest few, as far as that
// succeeds: what stays is collected at its time. Ids sort by time, of clocks that
// may differ; whatever they say, the current version stays, as it has no ttl.
//
// It costs a read of the sort keys of those versions, eventually consistent (half
// a unit for 4 KB of rows), and one write unit for each that is deleted.
func (s *Store) prune(ctx context.Context, pk string, keep int) {
	ctx = s.metered(ctx, "prune")
	var page *dynamodb.QueryOutput
	err := s.call(ctx, func(ctx context.Context) (err error) {
		page, err = s.api.Query(ctx, &dynamodb.QueryInput{
			TableName:              &s.table,
			KeyConditionExpression: aws.String("pk = :pk AND begins_with(sk, :prefix)"),
			ProjectionExpression:   aws.String("sk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":pk": stringOf(pk), ":prefix": stringOf(versionPrefix),
			},
			ScanIndexForward: aws.Bool(false),
			Limit:            aws.Int32(int32(min(keep, maxKept)) + maxPruned),
		})
		return err
	})
	if err == nil && len(page.Items) > keep {
		err = s.call(ctx, func(ctx context.Context) error { return s.deleteSuperseded(ctx, pk, page.Items[keep:]) })
	}
	if err != nil {
		s.config.Logger.Warn("isr: versions beyond those to be kept are left to expire", slog.String("pk", pk), slog.Any("err", err))
	}
}

// maxKept bounds how many versions are counted.
const maxKept = 10_000

// deleteSuperseded deletes version rows, but not one that is current, or that has
// become current again since it was found: those have no ttl.
func (s *Store) deleteSuperseded(ctx context.Context, pk string, found []map[string]types.AttributeValue) error {
	for _, item := range found {
		err := s.db.WithContext(ctx).Model(&contentRow{location: s.at(pk, row(item).text(attrSK))}).
			WithCondition("Expires", "EXISTS", nil).
			Delete()
		if err != nil && tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
			return err
		}
	}
	return nil
}
