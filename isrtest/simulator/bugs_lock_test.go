package simulator_test

import (
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/isrtest/simulator"
)

// lockBugs are those of LOCK and its conditions.
func lockBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a lease is taken without the check of its expiry", API: edit(editedAPI{put: func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ExpressionAttributeValues, in.ExpressionAttributeNames = nil, nil, nil
			in.ReturnValuesOnConditionCheckFailure = ""
		}})},
		{Name: "each attempt to take a lease has a token of its own", API: edit(editedAPI{put: func(in *dynamodb.PutItemInput) {
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
	}
}

func withoutCondition(in *dynamodb.UpdateItemInput) {
	in.ConditionExpression = nil
	in.ReturnValuesOnConditionCheckFailure = ""
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = used(aws.ToString(in.UpdateExpression), in.ExpressionAttributeNames, in.ExpressionAttributeValues)
}
