package simulator_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// lockBugs break LOCK and its conditions.
func lockBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a lease is taken without the check of its expiry", API: edit(editedAPI{put: func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ExpressionAttributeValues, in.ExpressionAttributeNames = nil, nil, nil
			in.ReturnValuesOnConditionCheckFailure = ""
		}})},
		{Name: "each attempt of an Acquire has a new token", API: edit(editedAPI{put: func(in *dynamodb.PutItemInput) {
			in.Item["lease_token"] = &types.AttributeValueMemberS{Value: rand.Text()}
		}})},
		{Name: "a heartbeat does not check the token", API: edit(editedAPI{update: func(in *dynamodb.UpdateItemInput) {
			if !isBackOff(in) {
				withoutCondition(in)
			}
		}})},
		{Name: "a back-off does not check the token", API: edit(editedAPI{update: func(in *dynamodb.UpdateItemInput) {
			if isBackOff(in) {
				withoutCondition(in)
			}
		}})},
		{Name: "a release does not check the token", API: edit(editedAPI{delete: func(in *dynamodb.DeleteItemInput) {
			in.ConditionExpression, in.ExpressionAttributeValues, in.ExpressionAttributeNames = nil, nil, nil
			in.ReturnValuesOnConditionCheckFailure = ""
		}})},
		{Name: "an Acquire that meets its own write reports the lease as held", Profile: "network", API: edit(editedAPI{taken: func(in *dynamodb.PutItemInput, err error) error {
			refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			if !ok || text(refused.Item, "lease_token") != text(in.Item, "lease_token") {
				return err
			}
			return &types.ConditionalCheckFailedException{Item: lockOfAnother()}
		}})},
		{Name: "an Acquire whose reply was lost reports the lease as held", Profile: "replies", API: edit(editedAPI{taken: func(_ *dynamodb.PutItemInput, err error) error {
			if _, answered := errors.AsType[smithy.APIError](err); err == nil || answered || errors.Is(err, context.Canceled) {
				return err
			}
			return &types.ConditionalCheckFailedException{Item: lockOfAnother()}
		}})},
		{Name: "a heartbeat ignores the lease's expiry", Profile: "hanging", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return hopefulStore{inner} }},
	}
}

// lockOfAnother returns a LOCK row of another holder.
func lockOfAnother() item {
	return item{
		"pk": &types.AttributeValueMemberS{Value: "another"}, "sk": &types.AttributeValueMemberS{Value: "LOCK"},
		"lease_token":      &types.AttributeValueMemberS{Value: "another"},
		"lease_expires_at": &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Unix()+5, 10)},
	}
}

// A hopefulStore treats a lease as extended unless Refresh says that it is lost.
type hopefulStore struct{ store.MetaStore }

func (s hopefulStore) Refresh(ctx context.Context, l store.Lease) error {
	if err := s.MetaStore.Refresh(ctx, l); errors.Is(err, store.ErrLeaseLost) {
		return err
	}
	return nil
}

func withoutCondition(in *dynamodb.UpdateItemInput) {
	in.ConditionExpression = nil
	in.ReturnValuesOnConditionCheckFailure = ""
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = used(aws.ToString(in.UpdateExpression), in.ExpressionAttributeNames, in.ExpressionAttributeValues)
}
