package dynamostore

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// maxPruned bounds how many versions one publish deletes. Usually it is one; surplus
// versions of earlier publishes are deleted over several publishes.
const maxPruned = 25

// prune deletes superseded versions beyond the newest keep. After an error the rest
// stays until it expires. Ids sort by the time of clocks that may differ; the current
// version is never deleted, because it has no ttl.
//
// It costs an eventually consistent read of the version rows (half a unit for 4 KB),
// and one write unit for each deleted row.
func (s *Store) prune(ctx context.Context, pk string, keep int) {
	ctx = s.metered(ctx, "prune")
	newest := s.withPrefix(pk, versionPrefix)
	newest.ConsistentRead, newest.ScanIndexForward = nil, aws.Bool(false)
	newest.ProjectionExpression, newest.Limit = aws.String("sk"), aws.Int32(int32(min(keep, maxKept))+maxPruned)
	var page *dynamodb.QueryOutput
	err := s.call(ctx, func(ctx context.Context) (err error) {
		page, err = s.api.Query(ctx, newest)
		return err
	})
	if err == nil && len(page.Items) > keep {
		err = s.call(ctx, func(ctx context.Context) error { return s.deleteSuperseded(ctx, pk, page.Items[keep:]) })
	}
	if err != nil {
		s.config.Logger.Warn("isr: failed to delete surplus versions; they stay until they expire", slog.String("pk", pk), slog.Any("err", err))
	}
}

// maxKept bounds how many versions are counted.
const maxKept = 10_000

// deleteSuperseded deletes version rows, except one that is current, or that has
// become current again since the read: those have no ttl.
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
